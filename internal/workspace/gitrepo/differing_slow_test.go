package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/workspace"
)

// slow is a pattern that takes git time without end on slowFile.
const (
	slow     = "a*/**/a*/**/a*/**/a*/**/a*/**/a*/**/a*/**/a*/**/a*/**/a*/**/b"
	slowFile = "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/f"
)

// plantSlow has git take time without end in the working folder of a box.
func plantSlow(t *testing.T, b *box, file string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(b.work.Path, "a")))
	write(t, filepath.Join(b.work.Path, slowFile), "one\n")
	b.inside.Git("add", "-A")
	b.inside.Git("commit", "-q", "-m", "deep")
	write(t, filepath.Join(b.work.Path, slowFile), "two\n") // of the same size: it has to be read
	write(t, filepath.Join(b.work.Path, filepath.Dir(slowFile), "new"), "not committed\n")
	write(t, filepath.Join(b.work.Path, file), slow+" text\n"+slow+"\n")
}

func TestPatternsWithoutEndAreGivenUp(t *testing.T) {
	t.Parallel()
	for _, file := range []string{".gitignore", ".gitattributes"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, newHost(t), "box")
			plantSlow(t, b, file)
			b.importIt()
			i, err := openImport(t.Context(), Open, b.work, b.scratch)
			must(t, err)
			i.host.brief = time.Second
			err = i.uncommitted(t.Context(), &workspace.Status{})
			if err == nil {
				t.Skip("this git takes no time for such patterns: since 2.47")
			}
			if !errors.Is(err, forage.ErrRefused) || !errors.Is(err, errTooLong) || !strings.Contains(forage.Hint(err), file) {
				t.Errorf("what is uncommitted: %v (%s)", err, forage.Hint(err))
			}
			if file == ".gitattributes" { // each takes seconds
				must(t, i.close())
				return
			}
			must(t, i.quarantine())
			i.stage.brief = time.Second
			k := newKeeping(i, "box", time.Now().UTC().Truncate(time.Second))
			must(t, k.run(t.Context()))
			kept := filepath.Join(k.aside(), "tree", filepath.Dir(slowFile), "new")
			if text, err := os.ReadFile(kept); err != nil || string(text) != "not committed\n" {
				t.Errorf("kept: %q %v", text, err)
			}
			must(t, i.close())
		})
	}
}
