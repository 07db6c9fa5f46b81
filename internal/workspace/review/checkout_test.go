package review

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/workspace/gitrepo"
)

// file is the content of a file of the user's.
func (b *box) file(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.user.Dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func TestApplyWritesTheUsersLineEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, global, local, want string
	}{
		{"the user's configuration", "[core]\n\tautocrlf = true\n", "", "1\r\n2\r\n"},
		{"what it includes", "[include]\n\tpath = more\n", "", "1\r\n2\r\n"},
		{"its own after what it includes", "[include]\n\tpath = more\n[core]\n\tautocrlf = input\n", "", "1\n2\n"},
		{"what it includes elsewhere", "[includeIf \"gitdir:elsewhere/\"]\n\tpath = more\n", "", "1\n2\n"},
		{"the repository's comes first", "[core]\n\tautocrlf = true\n", "false", "1\n2\n"},
		{"none", "", "", "1\n2\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a.txt": "1\n", "b.txt": "1\n"})
			global := filepath.Join(filepath.Dir(b.user.Dir), ".gitconfig")
			b.write(filepath.Dir(global), ".gitconfig", test.global)
			b.write(filepath.Dir(global), "more", "[core]\n\tautocrlf = true\n")
			b.subject.Git = gitrepo.UserConfig{Env: []string{"HOME=" + filepath.Dir(global)}}
			if test.local != "" {
				b.user.Git("config", "core.autocrlf", test.local)
			}
			for _, name := range []string{"a.txt", "b.txt"} {
				if err := os.Remove(filepath.Join(b.user.Dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			b.user.Git("checkout", "-q", "--", ".")
			b.write(b.work.Dir, "a.txt", "1\n2\n")
			b.write(b.work.Dir, "new.txt", "1\n2\n")
			b.mustApply(Options{})
			for _, name := range []string{"a.txt", "new.txt"} {
				if got := b.file(name); got != test.want {
					t.Errorf("%s: %q, want %q", name, got, test.want)
				}
				if got := b.user.Git("cat-file", "-s", "HEAD:"+name); got != "4" {
					t.Errorf("%s: %s bytes in the repository, want 4", name, got)
				}
			}
			if status := b.user.Git("status", "--porcelain"); status != "" {
				t.Errorf("status: %q", status)
			}
		})
	}
}

func TestApplyKeepsASparseCheckoutSparse(t *testing.T) {
	t.Parallel()
	for _, index := range []string{"--no-sparse-index", "--sparse-index"} {
		t.Run(index, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"in/a": "1\n", "out/b": "1\n", "top": "t\n"})
			b.user.Git("sparse-checkout", "set", "--cone", index, "in")
			b.write(b.work.Dir, "in/a", "2\n")
			b.write(b.work.Dir, "out/b", "2\n")
			b.write(b.work.Dir, "out/new", "2\n")
			b.mustApply(Options{})
			if got := b.file("in/a"); got != "2\n" {
				t.Errorf("in/a: %q", got)
			}
			if _, err := os.Lstat(filepath.Join(b.user.Dir, "out")); err == nil {
				t.Errorf("a folder that is left out was written: %s", b.user.Git("ls-files", "-t"))
			}
			if got := b.user.Git("show", "HEAD:out/new"); got != "2" {
				t.Errorf("out/new in the repository: %q", got)
			}
			if status := b.user.Git("status", "--porcelain"); status != "" {
				t.Errorf("status: %q", status)
			}
			b.user.Git("sparse-checkout", "disable")
			if got := b.file("out/b") + b.file("out/new"); got != "2\n2\n" {
				t.Errorf("once nothing is left out: %q", got)
			}
		})
	}
}

func TestApplySaysWhatSubmodulesNeed(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	lib := *b.user
	lib.Dir = filepath.Join(filepath.Dir(b.user.Dir), "lib")
	b.user.Git("init", "-q", lib.Dir)
	older := lib.Commit("x", "1\n")
	newer := lib.Commit("x", "2\n")
	b.user.Git("-c", "protocol.file.allow=always", "submodule", "add", "-q", lib.Dir, "sub")
	b.user.Git("commit", "-q", "-m", "with a submodule")
	b.work.Git("reset", "-q", "--hard", "main")
	b.subject.Workspace.Base = b.user.Git("rev-parse", "HEAD")
	b.work.Git("update-index", "--cacheinfo", "160000,"+older+",sub")
	b.work.Git("commit", "-q", "-m", "an older one")
	done := b.mustApply(Options{})
	if notes := strings.Join(done.Notes, "\n"); !strings.Contains(notes, "git submodule update") || !strings.Contains(notes, "sub;") {
		t.Errorf("notes: %q", notes)
	}
	sub := lib
	sub.Dir = filepath.Join(b.user.Dir, "sub")
	if at := sub.Git("rev-parse", "HEAD"); at != newer {
		t.Errorf("the folder of the submodule was entered: it is at %s", at)
	}
	b.user.Git("-c", "protocol.file.allow=always", "submodule", "update", "-q")
	if status := b.user.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
}

func TestApplyInALinkedWorktreeLogsItsOwnHEAD(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	linked := *b.user
	linked.Dir = filepath.Join(filepath.Dir(b.user.Dir), "linked")
	b.user.Git("worktree", "add", "-q", "-b", "other", linked.Dir)
	b.subject.Workspace.Source = linked.Dir
	before := b.user.Git("reflog", "HEAD")
	b.write(b.work.Dir, "a", "2\n")
	b.mustApply(Options{})
	if now := b.user.Git("reflog", "HEAD"); now != before {
		t.Errorf("the log of the main worktree's HEAD: %s", now)
	}
	for _, ref := range []string{"HEAD", "other"} {
		if log := linked.Git("reflog", "-1", ref); !strings.Contains(log, "forage: apply box") {
			t.Errorf("the log of %s: %s", ref, log)
		}
	}
	if status := linked.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
}

// Where the work has a file in the place of a submodule, git would remove the submodule's folder with all that is in it.
func TestApplyTakesNoSubmoduleAway(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	lib := *b.user
	lib.Dir = filepath.Join(filepath.Dir(b.user.Dir), "lib")
	b.user.Git("init", "-q", lib.Dir)
	lib.Commit("x", "1\n")
	b.user.Git("-c", "protocol.file.allow=always", "submodule", "add", "-q", lib.Dir, "sub")
	b.user.Git("commit", "-q", "-m", "with a submodule")
	b.work.Git("reset", "-q", "--hard", "main")
	b.subject.Workspace.Base = b.user.Git("rev-parse", "HEAD")
	b.work.Git("rm", "-q", "--cached", "sub")
	if err := os.Remove(filepath.Join(b.work.Dir, "sub")); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "sub", "a file\n")
	b.commit("a file in its place")
	b.write(b.user.Dir, "sub/precious", "nowhere else\n")
	b.refuses(Options{}, "sub", "submodule")

	b.user.Git("submodule", "deinit", "-q", "--force", "sub")
	b.mustApply(Options{})
	if text := b.file("sub"); text != "a file\n" {
		t.Errorf("sub: %q", text)
	}
}
