// Package testgit has real git for tests: repositories with nothing of the
// caller's configuration, and git's own server behind HTTP. It is not for anything but tests.
package testgit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Environ is an environment in which git has no configuration but home's, and asks for nothing.
func Environ(home string) []string {
	return []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	}
}

// Repo is a working tree.
type Repo struct {
	t   testing.TB
	Dir string
	Env []string
}

// Clone clones url into a new folder.
func Clone(t testing.TB, url string, args ...string) *Repo {
	t.Helper()
	dir := t.TempDir()
	r := &Repo{t: t, Dir: dir, Env: Environ(dir)}
	r.Git(append(append([]string{"clone", "-q"}, args...), url, "work")...)
	r.Dir = filepath.Join(dir, "work")
	return r
}

// Git runs git and returns its standard output without white space around it; it fails the test
// when git fails.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	out, messages, err := r.Run(nil, args...)
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, messages)
	}
	return strings.TrimSpace(string(out))
}

// Run runs git with input and returns what it writes.
func (r *Repo) Run(input []byte, args ...string) (stdout []byte, stderr string, err error) {
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	cmd.Stdin = bytes.NewReader(input)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	err = cmd.Run()
	return out.Bytes(), messages.String(), err
}

// Commit makes a commit that changes a file, and returns its id.
func (r *Repo) Commit(file, content string) string {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.Dir, file), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.Git("add", file)
	r.Git("commit", "-q", "-m", "change "+file)
	return r.Git("rev-parse", "HEAD")
}

// Init makes an empty repository with the branch main in a new folder below dir.
func Init(t testing.TB, dir string) *Repo {
	t.Helper()
	r := &Repo{t: t, Dir: dir, Env: Environ(dir)}
	r.Git("init", "-q", "-b", "main", "work")
	r.Dir = filepath.Join(dir, "work")
	return r
}

// At runs git in a folder that is there, in the given environment.
func At(t testing.TB, dir string, env []string) *Repo { return &Repo{t: t, Dir: dir, Env: env} }
