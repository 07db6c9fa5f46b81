package workspacetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"forage/internal/testdir"
)

// User is somebody who works with git and jj on the host: a home folder, an environment made from
// nothing, and one of the gits that this machine has.
type User struct {
	testing.TB
	Home string
	Path string // PATH
	Env  []string
}

// NewUser makes one with a new home folder.
func NewUser(t testing.TB) *User {
	t.Helper()
	home := Dir(t)
	u := &User{TB: t, Home: home, Path: os.Getenv("PATH"), Env: []string{
		"HOME=" + home, "LANG=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"JJ_USER=User", "JJ_EMAIL=user@example.com",
	}}
	u.Write(home, ".gitconfig", "[user]\n\tname = User\n\temail = user@example.com\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
	return u
}

// Dir is a temporary folder, with its links resolved.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// With is the same user with another git in front: a folder of NewerGit, or "".
func (u *User) With(bin string) *User {
	other := *u
	if bin != "" {
		other.Path = bin + ":" + u.Path
	}
	return &other
}

// NewerGit is the folder of a git that is newer than the distribution's, which .ci/install-deps
// makes; "" if there is none, or no time for it.
func NewerGit() string {
	if !testdir.Soak() {
		return ""
	}
	places := []string{"/var/cache/firefly-forage"}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "firefly-forage"))
	}
	for _, place := range places {
		bin := filepath.Join(place, "git", "bin")
		if _, err := os.Stat(filepath.Join(bin, "git")); err == nil {
			return bin
		}
	}
	return ""
}

// Command is a command of the user's in dir.
func (u *User) Command(ctx context.Context, dir string, argv ...string) *exec.Cmd {
	program := argv[0]
	if !strings.Contains(program, "/") {
		for _, folder := range filepath.SplitList(u.Path) {
			if info, err := os.Stat(filepath.Join(folder, argv[0])); err == nil && info.Mode()&0o111 != 0 {
				program = filepath.Join(folder, argv[0])
				break
			}
		}
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(u.Env), "PATH="+u.Path)
	cmd.WaitDelay = time.Minute // git leaves a process behind, which has its streams open for a moment
	return cmd
}

// patience bounds how long a command may take, on a machine that does much besides.
const patience = 4 * time.Minute

// Try runs a command and returns what it wrote to both streams. One that doesn't end is context.DeadlineExceeded.
func (u *User) Try(dir string, argv ...string) (string, error) {
	u.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.Context()), patience)
	defer cancel()
	out, err := u.Command(ctx, dir, argv...).CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return strings.TrimSpace(string(out)), err
}

// Must runs a command that has to succeed.
func (u *User) Must(dir string, argv ...string) string {
	u.Helper()
	out, err := u.Try(dir, argv...)
	if err != nil {
		u.Fatalf("%q in %s: %v\n%s", argv, dir, err, out)
	}
	return out
}

// Git is Must for git.
func (u *User) Git(dir string, args ...string) string {
	u.Helper()
	return u.Must(dir, append([]string{"git"}, args...)...)
}

// Write writes a file, and the folders above it.
func (u *User) Write(dir, name, content string) {
	u.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		u.Fatal(err)
	}
}

// Commit makes a commit that changes one file.
func (u *User) Commit(dir, name, content string) {
	u.Helper()
	u.Write(dir, name, content)
	u.Git(dir, "add", "-A", "--", "./"+name)
	u.Git(dir, "commit", "-q", "-m", "change "+strings.ToValidUTF8(name, "?"))
}

// Repository makes the usual repository in dir: two commits on main, a tag, an ignored file. It starts git three
// times: most of the suite's repositories begin with this one.
func (u *User) Repository(dir string, initArgs ...string) string {
	u.Helper()
	u.Git(filepath.Dir(dir), append(append([]string{"init", "-q", "-b", "main"}, initArgs...), dir)...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.Context()), patience)
	defer cancel()
	history := u.Command(ctx, dir, "git", "fast-import", "--quiet")
	history.Stdin = strings.NewReader(usualHistory)
	if out, err := history.CombinedOutput(); err != nil {
		u.Fatalf("git fast-import: %v\n%s", err, out)
	}
	u.Git(dir, "read-tree", "-u", "--reset", "HEAD")
	u.Write(dir, "build.log", "ignored\n")
	return dir
}

// usualHistory is for git fast-import.
const usualHistory = `commit refs/heads/main
committer User <user@example.com> 1700000000 +0000
data 5
first
M 100644 inline .gitignore
data 6
*.log

M 100644 inline docs/guide.txt
data 6
guide

M 100644 inline file.txt
data 4
one


reset refs/tags/v1
from refs/heads/main

commit refs/heads/main
committer User <user@example.com> 1700000000 +0000
data 6
second
M 100644 inline file.txt
data 8
one
two

`

// JJ makes a jj repository out of nothing in dir, with the same content as Repository.
func (u *User) JJ(dir string, initArgs ...string) string {
	u.Helper()
	if _, err := exec.LookPath("jj"); err != nil {
		u.Skip("jj is not installed")
	}
	u.Must(filepath.Dir(dir), append(append([]string{"jj", "git", "init"}, initArgs...), dir)...)
	u.Write(dir, ".gitignore", "*.log\n")
	u.Write(dir, "file.txt", "one\ntwo\n")
	u.Write(dir, "docs/guide.txt", "guide\n")
	u.Must(dir, "jj", "commit", "-m", "first")
	u.Must(dir, "jj", "bookmark", "create", "main", "-r", "@-")
	return dir
}
