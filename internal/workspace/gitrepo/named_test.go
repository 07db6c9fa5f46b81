package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestNamed: what a repository's configuration names is found wherever git reads configuration for
// a working folder.
func TestNamed(t *testing.T) {
	t.Parallel()
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
	must(t, os.Symlink("../../scripts/pre", at(".git/hooks/pre-commit")))
	write(t, at(".git/config"), string(config)+"[include]\n\tpath = ../tools/gitconfig\n") // last: git would wait for the FIFO
	for _, test := range []struct {
		folder, name string
		want         bool
	}{
		{host.Dir, at("tools/gitconfig"), true}, {host.Dir, at("tools/more"), true}, {host.Dir, at("tools/pipe"), true},
		{host.Dir, at("from-more"), true}, {host.Dir, at("tools/watch"), true}, {host.Dir, at("of-the-worktree"), false},
		{host.Dir, at(".git/hooks/pre-commit"), true}, {host.Dir, at(".git/hooks"), false},
		{folder, filepath.Join(folder, "of-the-worktree"), true}, {folder, filepath.Join(folder, "from-more"), true},
	} {
		found := slices.ContainsFunc(UserConfig{}.Named(t.Context(), at(".git"), test.folder), func(n Named) bool { return n.Path == test.name })
		if found != test.want {
			t.Errorf("%s in %s: found is %t", test.name, test.folder, found)
		}
	}
}

// TestNamedByTheUser: the user's own configuration holds in all repositories, or in those that it
// says.
func TestNamedByTheUser(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	home := t.TempDir()
	other := filepath.Join(home, "link")
	must(t, os.Symlink(filepath.Dir(host.Dir), other))
	user := UserConfig{Home: home, Files: []string{filepath.Join(home, ".gitconfig"), filepath.Join(home, "absent")}}
	at := func(name string) string { return filepath.Join(host.Dir, name) }
	for config, want := range map[string][]Named{
		"[core]\n\thooksPath = ~/hooks":                                      {{Path: home + "/hooks"}},
		"[core]\n\thooksPath = :(optional).husky/_/":                         {{Path: at(".husky")}},
		"[core]\n\thooksPath = ~nobody-of-that-name/x":                       {{Path: home + "/x"}},
		"[init]\n\ttemplateDir = t":                                          {{Path: at("t")}},
		"[hook \"lint\"]\n\tcommand = tools/lint --all":                      {{Path: at("tools/lint")}, {at("--all"), true}},
		"[core]\n\tfsmonitor = $HOME/x":                                      {{Path: home + "/x"}},
		"[alias]\n\tt = !~/x":                                                {{home + "/x", true}},
		"[alias]\n\tt = !cat TODO.md":                                        nil,
		"[alias]\n\tt = log/x":                                               nil,
		"[alias]\n\tt = !sh tool.sh TODO.md":                                 {{at("tool.sh"), true}},
		"[core]\n\teditor = ${EDITOR:-/usr/bin/vim}":                         {{at("${EDITOR:-/usr/bin/vim}"), true}},
		"[core]\n\tpager = \"'my tools/pager' -x\"":                          {{Path: at("my tools/pager")}, {at("-x"), true}},
		"[filter \"a.b\"]\n\tclean = clean tools/x":                          {{at("clean"), true}, {at("tools/x"), true}},
		"[include]\n\tpath = more":                                           {{Path: home + "/more"}, {Path: home + "/deep/more"}},
		"[includeIf \"gitdir:/\"]\n\tpath = more":                            {{Path: home + "/more"}, {Path: home + "/deep/more"}},
		"[includeIf \"gitdir:" + filepath.Dir(host.Dir) + "/\"]\n\tpath=a":   {{Path: home + "/a"}},
		"[includeIf \"gitdir:~/link/\"]\n\tpath=a":                           {{Path: home + "/a"}},
		"[includeIf \"gitdir/i:~/LINK/\"]\n\tpath=a":                         nil, // which is no folder that exists
		"[includeIf \"gitdir/i:" + strings.ToUpper(host.Dir) + "\"]\npath=a": {{Path: home + "/a"}},
		"[includeIf \"gitdir:~/work/\"]\n\tpath=a":                           nil,
		"[includeIf \"gitdir:~/work/*/x\"]\n\tpath=a":                        nil,
		"[includeIf \"gitdir:work/\"]\n\tpath=a":                             {{Path: home + "/a"}},
		"[includeIf \"onbranch:x\"]\n\tpath=a":                               {{Path: home + "/a"}},
		"[includeIf \"hasconfig:remote.*.url:x\"]\n\tpath=a":                 {{Path: home + "/a"}},
		"[remote \"x\"]\n\turl = tools/x\n[user]\n\tname = /x\n[core\n":      nil,
	} {
		write(t, filepath.Join(home, ".gitconfig"), config+"\n")
		write(t, filepath.Join(home, "more"), "[include]\n\tpath = deep/more\n[probe]\n\tread = 1\n")
		write(t, filepath.Join(home, "a"), "[probe]\n\tread = 1\n")
		cmd := exec.Command("git", "-C", host.Dir, "config", "probe.read")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}
		if out, _ := cmd.Output(); len(out) > 0 && want == nil {
			t.Errorf("%s: git includes it", config)
		}
		want = append([]Named{{Path: user.Files[0]}, {Path: user.Files[1]}}, want...)
		if diff := cmp.Diff(want, user.Named(t.Context(), at(".git"), host.Dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
}
