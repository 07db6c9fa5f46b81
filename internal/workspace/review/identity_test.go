package review

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/workspace/gitrepo"
)

// What apply commits is by whom git says in that repository: its own configuration, and what the user's includes there.
func TestApplyCommitsAsTheRepositorySays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		global, local, want string
	}{
		"nobody":           {"", "", "Caller <caller@example.com>"},
		"the user's":       {"[user]\n\tname = G\n\temail = g@example.com\n", "", "G <g@example.com>"},
		"the repository's": {"[user]\n\tname = G\n\temail = g@example.com\n", "R", "R <r@example.com>"},
		"included there": {"[user]\n\tname = G\n\temail = g@example.com\n[includeIf \"gitdir:work/\"]\n\tpath = more\n", "",
			"Work <work@example.com>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			home := t.TempDir()
			b.write(home, ".gitconfig", test.global)
			b.write(home, "more", "[user]\n\tname = Work\n\temail = work@example.com\n")
			b.subject.Git = gitrepo.UserConfig{Env: []string{"HOME=" + home}}
			if test.local != "" {
				b.user.Git("config", "user.name", test.local)
				b.user.Git("config", "user.email", strings.ToLower(test.local)+"@example.com")
			}
			b.write(b.work.Dir, "new", "n\n")
			b.mustApply(Options{Name: "Caller", Email: "caller@example.com"})
			if got := b.user.Git("log", "-1", "--format=%an <%ae>%n%cn <%ce>"); got != test.want+"\n"+test.want {
				t.Errorf("by %q, want %q", got, test.want)
			}
		})
	}
}

// A commit is signed where the user wants that, or apply says why not.
func TestApplySignsAsTheUserDoes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen")
	}
	b := newBox(t, map[string]string{"a": "1\n"})
	home := t.TempDir()
	key := filepath.Join(home, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	b.write(home, ".gitconfig", "[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n[user]\n\tname = G\n\temail = g@example.com\n\tsigningKey = "+key+".pub\n")
	b.subject.Git = gitrepo.UserConfig{Env: []string{"HOME=" + home}}
	signed := func() bool { return strings.Contains(b.user.Git("cat-file", "commit", "main"), "BEGIN SSH SIGNATURE") }
	b.write(b.work.Dir, "new", "n\n")
	if done := b.mustApply(Options{}); !signed() || len(done.Notes) > 0 {
		t.Errorf("not signed: %+v", done)
	}
	b.write(b.work.Dir, "more", "n\n")
	b.user.Git("config", "gpg.ssh.program", "/bin/false")
	if done := b.mustApply(Options{}); signed() || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "a repository names") {
		t.Errorf("signed by the repository's program: %+v", done)
	}
	b.user.Git("config", "--unset", "gpg.ssh.program")
	if err := errors.Join(os.Remove(key), os.Remove(key+".pub")); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "last", "n\n")
	if done := b.mustApply(Options{}); signed() || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "not signed") {
		t.Errorf("without a key: %+v", done)
	}
}

// With NoCommit the commits come, and the rest is left as changes, beside those of the user's.
func TestApplyLeavesChangesUncommitted(t *testing.T) {
	t.Parallel()
	for _, merge := range []bool{false, true} {
		b := newBox(t, map[string]string{"a": "1\n", "b": "1\n", "gone": "1\n"})
		b.write(b.work.Dir, "a", "2\n")
		b.commit("work")
		b.write(b.work.Dir, "b", "2\n")
		b.write(b.work.Dir, "new", "n\n")
		if err := os.Remove(filepath.Join(b.work.Dir, "gone")); err != nil {
			t.Fatal(err)
		}
		log := "work\nbase"
		if merge {
			b.user.Commit("z", "z\n")
			log = "Merge the work of box into main\nwork\nchange z\nbase"
		}
		b.write(b.user.Dir, "staged", "s\n")
		b.user.Git("add", "staged")
		if would := b.mustApply(Options{NoCommit: true, DryRun: true}); would.Left != 3 {
			t.Errorf("would %+v", would)
		}
		if done := b.mustApply(Options{NoCommit: true}); done.Left != 3 {
			t.Errorf("done %+v", done)
		}
		if got := b.user.Git("log", "--topo-order", "--format=%s"); got != log {
			t.Errorf("log: %q, want %q", got, log)
		}
		if status := b.user.Git("status", "--porcelain"); status != "M b\n D gone\nA  staged\n?? new" {
			t.Errorf("status: %q", status)
		}
		if got := b.file("b") + b.file("new"); got != "2\nn\n" {
			t.Errorf("content: %q", got)
		}
		b.user.Git("fsck", "--strict")
		b.refuses(Options{}, "in the way") // the same, as a commit: they are there as changes
		b.user.Git("add", "-A")
		b.user.Git("commit", "-q", "-m", "mine")
		if again := b.mustApply(Options{NoCommit: true}); again.Changes() {
			t.Errorf("again: %+v", again)
		}
		b.write(b.work.Dir, "new", "n\nmore\n") // it goes on from what the user has committed
		if next := b.mustApply(Options{Paths: []string{"new"}, NoCommit: true}); next.Left != 1 || next.Before != next.After {
			t.Errorf("next: %+v", next)
		}
		if status := b.user.Git("status", "--porcelain"); status != "M new" {
			t.Errorf("status: %q", status)
		}
	}
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "new", "n\n")
	if _, err := b.apply(Options{NoCommit: true, Into: "other"}); err == nil {
		t.Error("there is no folder for the changes")
	}
}
