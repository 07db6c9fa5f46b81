package workspacetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// states are repositories in the middle of something, or whose own files are not like the usual ones.
func states() []Odd {
	return []Odd{
		{Name: "no commit yet", Make: func(u *User, dir string) string {
			u.Git(dir, "init", "-q", "repo")
			u.Write(dir, "repo/file.txt", "not committed\n")
			return filepath.Join(dir, "repo")
		}},
		{Name: "detached HEAD", Make: usual(func(u *User, repo string) { u.Git(repo, "checkout", "-q", "--detach", "v1") })},
		{Name: "HEAD is a link", Make: usual(func(u *User, repo string) {
			remove(u, filepath.Join(repo, ".git/HEAD"))
			link(u, "refs/heads/main", filepath.Join(repo, ".git/HEAD"))
		})},
		{Name: "middle of a merge", Make: usual(unfinishedMerge)},
		{Name: "index is locked", Make: usual(func(u *User, repo string) { u.Write(repo, ".git/index.lock", "") })},
		{Name: "no index", Make: usual(func(u *User, repo string) { remove(u, filepath.Join(repo, ".git/index")) })},
		{Name: "index of version 4, split, with extensions", Make: usual(func(u *User, repo string) {
			u.Git(repo, "update-index", "--index-version", "4", "--split-index", "--untracked-cache")
		})},
		{Name: "many packed refs", Make: usual(manyRefs)},
		{Name: "branch names", Make: usual(branchNames)},
		{Name: "reftable", Newer: true, Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "repo"), "--ref-format=reftable")
		}},
		{Name: "worktree configuration", Make: usual(func(u *User, repo string) {
			u.Git(repo, "config", "extensions.worktreeConfig", "true")
			u.Git(repo, "config", "--worktree", "core.sparseCheckout", "false")
		})},
	}
}

func unfinishedMerge(u *User, repo string) {
	u.Git(repo, "checkout", "-q", "-b", "other", "v1")
	u.Commit(repo, "file.txt", "one\nother\n")
	u.Git(repo, "checkout", "-q", "main")
	if out, err := u.Try(repo, "git", "merge", "other"); err == nil {
		u.Fatalf("the merge has no conflict\n%s", out)
	}
}

func manyRefs(u *User, repo string) {
	head := u.Git(repo, "rev-parse", "HEAD")
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range 5_000 {
		fmt.Fprintf(&refs, "%s refs/remotes/origin/%06d\n", head, i)
	}
	u.Git(repo, "pack-refs", "--all") // the usual ones are there too
	old, err := os.ReadFile(filepath.Join(repo, ".git/packed-refs"))
	if err != nil {
		u.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(old), "\n")
	_, many, _ := strings.Cut(refs.String(), "\n")
	heads, tags, _ := strings.Cut(rest, " refs/tags/") // sorted: heads, remotes, tags
	cut := strings.LastIndex(heads, "\n") + 1
	u.Write(repo, ".git/packed-refs", head+"\n"+heads[:cut]+many+heads[cut:]+" refs/tags/"+tags)
	u.Git(repo, "fsck")
}

func branchNames(u *User, repo string) {
	for _, name := range []string{"feature/é/ü", "@", "a@b", "heads/main", "refs/heads/main", "-", "HEAD2", "sub/-x", "x.y.z", "日本", "a'b\"c$(d)"} {
		u.Git(repo, "update-ref", "refs/heads/"+name, "HEAD")
	}
	u.Git(repo, "symbolic-ref", "HEAD", "refs/heads/feature/é/ü")
	u.Git(repo, "update-ref", "refs/remotes/origin/main", "HEAD")
	u.Git(repo, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
}
