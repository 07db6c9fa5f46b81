package gitrepo_test

import (
	"path/filepath"
	"slices"
	"testing"

	"forage/internal/workspace/gitrepo"
)

// What rules of the user's ignore is left out without a word. What only a rule ignores that is new
// is told.
func TestNewRulesHideNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"a star":            {map[string]string{".gitignore": "*\n", "new": "", "src/new": "", "made/x": "", "made/y/z": ""}, []string{"made", "new", "src/new"}},
		"one of its own":    {map[string]string{"sub/.gitignore": "*\n", "sub/x": "", "sub/y/z": ""}, []string{"sub"}},
		"a folder":          {map[string]string{".gitignore": "*.log\nbuilt/\nnm/\n", "nm/x": "", "nm/y/z": "", "built/x": ""}, []string{"nm"}},
		"beside a file":     {map[string]string{"src/.gitignore": "x*\n", "src/x": "", "src/y": "", "src/a.log": ""}, []string{"src/x"}},
		"the user's":        {map[string]string{"src/.gitignore": "nothing\n", "built/x": "", "a.log": "", "src/b.log": "", "local": ""}, nil},
		"the user's folder": {map[string]string{".gitignore": "*\n", "built/x": "", "local": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolderTest(t, map[string]string{".gitignore": "*.log\nbuilt/\n", "src/a": "1"})
			writeFile(t, filepath.Join(f.repo.Dir, ".git/info/exclude"), "/local\n")
			for file, content := range test.files {
				writeFile(t, filepath.Join(f.work, file), content)
			}
			staging, err := f.opened.Staging(t.TempDir(), filepath.Join(t.TempDir(), "objects"))
			must(t, err)
			defer staging.Close()
			for range 2 {
				tree, err := staging.WriteTree(t.Context(), gitrepo.Folder{Path: f.work, Base: "HEAD", Index: f.index, Rules: []string{"HEAD"}})
				must(t, err)
				var left []string
				for _, file := range tree.Left {
					left = append(left, file.Path)
				}
				if !slices.Equal(left, test.want) {
					t.Errorf("left out: %q, and not %q", left, test.want)
				}
			}
		})
	}
}
