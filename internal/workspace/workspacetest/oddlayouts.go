package workspacetest

import (
	"os"
	"path/filepath"
)

// layouts are repositories whose folders lie elsewhere than usual.
func layouts() []Odd {
	return []Odd{
		{Name: "linked worktree", Make: linkedWorktree},
		{Name: "linked worktree of a bare repository", Make: worktreeOfBare},
		{Name: "bare", Make: bare, Bare: true},
		{Name: "separate git folder", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "work"), "--separate-git-dir", filepath.Join(dir, "elsewhere"))
		}},
		{Name: ".git is a link", Make: usual(func(u *User, repo string) {
			elsewhere := filepath.Join(filepath.Dir(repo), "elsewhere")
			if err := os.Rename(filepath.Join(repo, ".git"), elsewhere); err != nil {
				u.Fatal(err)
			}
			link(u, elsewhere, filepath.Join(repo, ".git"))
		})},
		{Name: "path of the repository", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "-with space, \"quotes\" $(x) \n new line é"))
		}},
		{Name: "submodule that is populated", Make: func(u *User, dir string) string { return submodule(u, dir, true) }},
		{Name: "submodule that is not populated", Make: func(u *User, dir string) string { return submodule(u, dir, false) }},
		{Name: "nested submodules", Make: nestedSubmodules},
	}
}

func linkedWorktree(u *User, dir string) string {
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Git(repo, "worktree", "add", "-q", "-b", "topic", filepath.Join(dir, "linked"))
	return filepath.Join(dir, "linked")
}

func bare(u *User, dir string) string {
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Git(dir, "clone", "-q", "--bare", repo, "bare.git")
	return filepath.Join(dir, "bare.git")
}

func worktreeOfBare(u *User, dir string) string {
	repo := bare(u, dir)
	u.Git(repo, "worktree", "add", "-q", filepath.Join(dir, "linked"), "main")
	return filepath.Join(dir, "linked")
}

func submodule(u *User, dir string, populated bool) string {
	library := u.Repository(filepath.Join(dir, "library"))
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Git(repo, "submodule", "--quiet", "add", library, "libs/library")
	u.Git(repo, "commit", "-q", "-m", "library")
	if !populated {
		u.Git(repo, "submodule", "--quiet", "deinit", "-f", "libs/library")
	}
	return repo
}

func nestedSubmodules(u *User, dir string) string {
	middle := submodule(u, dir, true)
	top := u.Repository(filepath.Join(dir, "top"))
	u.Git(top, "submodule", "--quiet", "add", middle, "middle")
	u.Git(top, "commit", "-q", "-m", "middle")
	u.Git(top, "submodule", "--quiet", "update", "--init", "--recursive")
	return top
}
