package plan

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
	"forage/internal/workspace/autorun"
)

func files(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil && link {
			err = os.Symlink(target, at)
		} else if err == nil {
			err = os.WriteFile(at, []byte(name), 0o640)
		}
		testdir.Must(t, err)
	}
}

// What is protected follows the parts of the workspace and the repository's configuration.
func TestProtectedPaths(t *testing.T) {
	store := filepath.Join(t.TempDir(), ".git")
	files(t, store, "objects/x", "refs/x")
	link := filepath.Join(t.TempDir(), "link")
	testdir.Must(t, os.Symlink(filepath.Dir(store), link))
	for config, want := range map[string]int{
		"[core]\n\thooksPath = tools/hooks\n":    1,
		"[core]\n\thooksPath = .git/hooks\n":     0,
		"[core]\n\thooksPath = /elsewhere\n":     0,
		"[core]\n\thooksPath = ../elsewhere\n":   0,
		"[core]\n\thooksPath = .\n":              0,
		"[core]\n\tbare = false\n":               0,
		"[core]\n\thooksPath = WORK/hooks\n":     1,
		"[core]\n\thooksPath = LINK/hooks\n":     1,
		"[core]\n\thooksPath = a\n[core]\nx = y": 1,

		"[include]\n\tpath = ../tools/gitconfig\n":                                 2, // and the hooks that it names
		"[includeIf \"gitdir:/\"]\n\tpath = WORK/absent\n":                         1,
		"[include]\n\tpath = here\n":                                               0,
		"[filter \"x\"]\n\tclean = python3 './tools/clean.py' --level 3 src\n":     1,
		"[diff \"x\"]\n\ttextconv = \"$(git rev-parse --show-toplevel)/absent\"\n": 0,
		"[core]\n\tfsmonitor = WORK/tools/clean.py\n":                              1,
		"[alias]\n\tt = !tools/clean.py && make src\n":                             1,
		"[remote \"src\"]\n\turl = tools/clean.py\n":                               0,
	} {
		work := filepath.Dir(store)
		os.RemoveAll(filepath.Join(work, "conf"))
		for _, name := range []string{".claude", ".idea", ".codex", ".vscode"} {
			os.Remove(filepath.Join(work, name))
		}
		config = strings.NewReplacer("WORK", work, "LINK", link).Replace(config)
		testdir.Must(t, os.WriteFile(filepath.Join(store, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
		testdir.Must(t, os.WriteFile(filepath.Join(store, "config"), []byte("[core]\n\trepositoryformatversion = 0\n"+config), 0o644))
		plan := forage.Plan{
			Workspace: forage.Workspace{Path: work, Target: "/workspace", Repository: &forage.Repository{Store: store}},
			Parts:     []forage.Workspace{{Target: "/deps/ro", ReadOnly: true}, {Path: "/gone", Target: "/deps/lib"}},
		}
		files(t, work, "tools/clean.py", "src/x")
		testdir.Must(t, os.WriteFile(filepath.Join(work, "tools/gitconfig"), []byte("[core]\n\thooksPath = .myhooks\n[include]\n\tpath = gitconfig\n"), 0o644))
		files(t, work, ".claude -> conf/claude", "conf/claude -> ../real", ".idea -> ../outside", ".codex -> .", ".vscode -> /etc")
		want += 2
		got, err := caller(t.TempDir()).protectedPaths(t.Context(), plan)
		if err != nil {
			t.Error(err)
		}
		if len(got) != 2*len(autorun.Protected)+want {
			t.Errorf("%q: %q", config, got)
		}
	}
}

// caller is a service for a user with that home.
func caller(home string) *Host {
	return &Host{Caller: Caller{Home: home, Getenv: func(string) (string, bool) { return "", false }}}
}

// What the caller's own configuration of git names is protected in every repository, in submodules
// too, and so is that configuration where a link of theirs leads into the tree.
func TestProtectedByTheCallersOwnConfiguration(t *testing.T) {
	home, top := t.TempDir(), t.TempDir()
	store, work, sub := filepath.Join(top, "work/.git"), filepath.Join(top, "work"), filepath.Join(top, "work/.git/modules/sub")
	for _, dir := range []string{store, sub} {
		files(t, dir, "HEAD", "objects/x", "refs/x")
	}
	files(t, work, "hooks/pre-commit", "conf/hooks/x", "link -> conf", "tools/watch", "tools/dead -> ../gone", "sub/hooks/x", "sub/tools/watch")
	files(t, home, ".config/git/attributes")
	plain := forage.Workspace{Mode: forage.WorkspaceDirect, Path: filepath.Join(work, "conf"), Target: "/workspace"}
	whole := forage.Workspace{
		Mode: forage.WorkspaceDirect, Path: work, Target: "/workspace", Repository: &forage.Repository{
			Store: store, Nested: []forage.Nested{{Path: "sub", Repository: forage.Repository{Store: sub}}},
		},
	}
	for _, test := range []struct {
		config, ofSub string
		w             forage.Workspace
		want          []string // nil: refused
	}{
		{"", "", whole, []string{}},
		{"[core]\n\thooksPath = hooks", "", whole, []string{"hooks", "sub/hooks"}},
		{"[core]\n\thooksPath = ~/hooks", "", whole, []string{}},
		{"[core]\n\thooksPath = .git/hooks", "", whole, []string{}},
		{"[core]\n\thooksPath = /etc/hooks", "", whole, []string{}},
		{"[core]\n\thooksPath = ../../hooks", "", whole, []string{}},
		{"[core]\n\thooksPath = WORK/link/hooks", "", whole, []string{"link", "conf/hooks"}},
		{"[core]\n\thooksPath = conf/hooks", "", whole, nil}, // the submodule has none
		{"[core]\n\tfsmonitor = tools/watch", "", whole, []string{"tools/watch", "sub/tools/watch"}},
		{"[core]\n\tfsmonitor = WORK/tools/gone", "", whole, nil},
		{"[core]\n\tfsmonitor = WORK/tools/dead", "", whole, nil},
		{"[alias]\n\tx = !WORK/tools/gone", "", whole, []string{}},
		{"[include]\n\tpath = WORK/tools/gone", "", whole, nil},
		{"[includeIf \"gitdir:WORK/\"]\n\tpath = WORK/tools/gone", "", whole, nil},
		{"[includeIf \"gitdir:/else/\"]\n\tpath = WORK/tools/gone", "", whole, []string{}},
		{"", "[core]\n\thooksPath = hooks\n\tfsmonitor = tools/watch -v", whole, []string{"sub/hooks", "sub/tools/watch"}},
		{"", "[core]\n\thooksPath = ../conf/hooks", whole, []string{"conf/hooks"}},
		{"", "[include]\n\tpath = WORK/gone", whole, nil},
		{"", "[core]\n\thooksPath = .git/hooks", whole, []string{}},
		{"[core]\n\thooksPath = conf/hooks", "", plain, []string{"hooks"}},
		{"[core]\n\tfsmonitor = conf/gone", "", plain, nil},
	} {
		text := strings.NewReplacer("WORK", work).Replace
		for path, config := range map[string]string{filepath.Join(home, ".gitconfig"): test.config, filepath.Join(sub, "config"): test.ofSub} {
			os.Remove(path)
			testdir.Must(t, os.WriteFile(path, []byte(text(config)), 0o644))
		}
		h := caller(home)
		got := h.NamedByGit(t.Context(), test.w)
		_, err := h.protectedPaths(t.Context(), forage.Plan{Workspace: test.w})
		if refused := errors.Is(err, forage.ErrRefused); refused != (test.want == nil) || err != nil && !refused {
			t.Errorf("%q, %q: %v", test.config, test.ofSub, err)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if test.want != nil && !slices.Equal(test.want, got) {
			t.Errorf("%q, %q: %q", test.config, test.ofSub, got)
		}
	}
	files(t, work, "dotfiles/git/config")
	testdir.Must(t, errors.Join(os.Remove(filepath.Join(home, ".gitconfig")), os.RemoveAll(filepath.Join(home, ".config/git"))))
	files(t, home, ".config/git -> "+work+"/dotfiles/git")
	testdir.Same(t, "configuration in the tree", []string{"dotfiles/git/config"}, caller(home).NamedByGit(t.Context(), whole))
}
