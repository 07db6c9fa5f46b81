package gitrepo

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNamed: what a repository's configuration names is found wherever git reads configuration for a working folder.
func TestNamed(t *testing.T) {
	host := newHost(t)
	at := func(name string) string { return filepath.Join(host.Dir, name) }
	write(t, at("tools/gitconfig"), "[include]\n\tpath = more\n[core]\n\tfsmonitor = tools/watch --all\n")
	write(t, at("tools/more"), "[core]\n\thooksPath = from-more\n[include]\n\tpath = gitconfig\n\tpath = pipe\n\tpath = broken\n")
	write(t, at("tools/broken"), "[core\n")
	must(t, unix.Mkfifo(at("tools/pipe"), 0o600))
	host.Git("config", "extensions.worktreeConfig", "true")
	folder := filepath.Join(t.TempDir(), "linked")
	host.Git("worktree", "add", "-q", folder)
	host.Git("-C", folder, "config", "--worktree", "core.hooksPath", "of-the-worktree")
	config, err := os.ReadFile(at(".git/config"))
	must(t, err)
	write(t, at(".git/config"), string(config)+"[include]\n\tpath = ../tools/gitconfig\n") // last: git would wait for the FIFO
	r, err := Open(t.Context(), at(".git"))
	must(t, err)
	for _, test := range []struct {
		folder, name string
		want         bool
	}{
		{host.Dir, at("tools/gitconfig"), true}, {host.Dir, at("tools/more"), true}, {host.Dir, at("tools/pipe"), true},
		{host.Dir, "from-more", true}, {host.Dir, "tools/watch", true}, {host.Dir, "of-the-worktree", false},
		{folder, "of-the-worktree", true}, {folder, "from-more", true},
	} {
		found := slices.ContainsFunc(r.Named(t.Context(), test.folder), func(n Named) bool { return n.Path == test.name })
		if found != test.want {
			t.Errorf("%s in %s: found is %t", test.name, test.folder, found)
		}
	}
}
