package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/testgit"
	"forage/internal/workspace"
)

// box is a workspace with a repository on the host and private metadata. What is inside is done by
// real git on the private git directory, which here finds the host's objects by their path on the
// host.
type box struct {
	t       testing.TB
	host    *testgit.Repo // the user's folder
	work    forage.Workspace
	inside  *testgit.Repo // git as the agent runs it
	outside *testgit.Repo // git as the user runs it in the working folder on the host
	scratch string
	shared  bool // others use the host's repository at the same time
}

// newHost makes a repository with two commits.
func newHost(t testing.TB, initArgs ...string) *testgit.Repo {
	t.Helper()
	host := testgit.Init(t, t.TempDir())
	if len(initArgs) > 0 {
		must(t, os.RemoveAll(filepath.Join(host.Dir, ".git")))
		host.Git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	}
	host.Commit("a", "one\n")
	host.Commit("b", "two\n")
	return host
}

func newBox(t testing.TB, host *testgit.Repo, name string) *box {
	t.Helper()
	state := t.TempDir()
	places := workspace.PlacesIn(state, filepath.Join(state, "run"))
	b := &box{t: t, host: host, scratch: places.Scratch}
	b.work = forage.Workspace{
		Name: workspace.Main, Mode: forage.WorkspaceWorktree, Path: places.Tree(name, workspace.Main), Target: "/workspace",
		Source: host.Dir, Branch: "forage-" + name, Base: host.Git("rev-parse", "HEAD"),
		Repository: &forage.Repository{
			Kind: forage.RepositoryGit, Dir: places.Repository(name, workspace.Main),
			Store: filepath.Join(host.Dir, ".git"), Head: "forage-" + name,
		},
	}
	must(t, os.MkdirAll(places.Trees, 0o700))
	host.Git("worktree", "add", "-q", "-b", b.work.Branch, b.work.Path)
	b.makePrivate()
	return b
}

// newDirectBox is a workspace in the user's own folder.
func newDirectBox(t testing.TB, host *testgit.Repo, name string) *box {
	t.Helper()
	state := t.TempDir()
	places := workspace.PlacesIn(state, filepath.Join(state, "run"))
	b := &box{t: t, host: host, scratch: places.Scratch}
	b.work = forage.Workspace{
		Name: workspace.Main, Mode: forage.WorkspaceDirect, Path: host.Dir, Target: "/workspace",
		Branch: "forage-" + name, Base: host.Git("rev-parse", "HEAD"),
		Repository: &forage.Repository{
			Kind: forage.RepositoryGit, Dir: places.Repository(name, workspace.Main),
			Store: filepath.Join(host.Dir, ".git"), Head: "main",
		},
	}
	b.makePrivate()
	return b
}

func (b *box) makePrivate() {
	b.t.Helper()
	repository := b.work.Repository
	must(b.t, os.MkdirAll(repository.Dir, 0o700))
	git := filepath.Join(repository.Dir, "git")
	b.host.Git("clone", "-q", "--bare", "--shared", repository.Store, git)
	home := b.t.TempDir()
	environ := testgit.Environ(home)
	b.outside = testgit.At(b.t, b.work.Path, environ)
	b.inside = testgit.At(b.t, b.work.Path, append(environ, "GIT_DIR="+git, "GIT_WORK_TREE="+b.work.Path))
	b.inside.Git("config", "core.bare", "false")
	b.inside.Git("symbolic-ref", "HEAD", "refs/heads/"+repository.Head)
	b.inside.Git("reset", "-q")
}

// path is a path in the private git directory.
func (b *box) path(name ...string) string {
	return filepath.Join(append([]string{b.work.Repository.Dir, "git"}, name...)...)
}

func (b *box) importIt() workspace.Update {
	b.t.Helper()
	update, err := Import(b.t.Context(), b.work, b.scratch)
	if err != nil {
		b.t.Fatal(err)
	}
	return update
}

func (b *box) unsaved() workspace.Status {
	b.t.Helper()
	status, err := Unsaved(b.t.Context(), b.work, b.scratch)
	if err != nil {
		b.t.Fatal(err)
	}
	return status
}

// branch is where the branch is on the host; "" is nowhere.
func (b *box) branch() string {
	b.t.Helper()
	return b.host.Git("for-each-ref", "--format=%(objectname)", "refs/heads/"+b.work.Branch)
}

// sound fails the test when the host's repository is not.
func (b *box) sound() {
	b.t.Helper()
	if out, messages, err := b.host.Run(nil, "fsck", "--full", "--strict", "--no-dangling"); err != nil {
		b.t.Errorf("the host's repository: %v\n%s%s", err, out, messages)
	}
	b.clean()
}

// clean fails the test when something of ours is left in the scratch folder.
func (b *box) clean() {
	b.t.Helper()
	hosts := filepath.Join(b.work.Repository.Store, "objects")
	patterns := []string{filepath.Join(b.scratch, "*"), filepath.Join(hosts, "pack/tmp_*")}
	if !b.shared {
		patterns = append(patterns, filepath.Join(hosts, "tmp_*"))
	}
	for _, pattern := range patterns {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			b.t.Errorf("left behind: %q %v", left, err)
		}
	}
}

// has says whether the host's repository has an object.
func (b *box) has(id string) bool {
	_, _, err := b.host.Run(nil, "cat-file", "-e", id)
	return err == nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func lines(text string) []string {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
