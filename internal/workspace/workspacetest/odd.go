package workspacetest

import (
	"os"
	"path/filepath"
	"strings"
)

// Odd is a repository that is not like the usual one.
type Odd struct {
	Name string
	// Make makes it below dir, an empty folder, and returns the path that the user names.
	Make func(u *User, dir string) string
	JJ   bool // a jj repository
	Bare bool // it has no working folder
	Rare bool // each provider for git refuses it, and says why
}

// Odds are all of them. A provider works with one, or refuses it before it has made anything.
func Odds() []Odd {
	rare := func(name string, change func(u *User, repo string)) Odd {
		return Odd{Name: name, Rare: true, Make: usual(change)}
	}
	return []Odd{
		{Name: "linked worktree", Make: linkedWorktree},
		{Name: "bare", Make: bare, Bare: true},
		{Name: "submodule", Make: submodule},
		{Name: "no commit yet", Make: func(u *User, dir string) string {
			u.Git(dir, "init", "-q", "repo")
			u.Write(dir, "repo/file.txt", "not committed\n")
			return filepath.Join(dir, "repo")
		}},
		{Name: "detached HEAD", Make: usual(func(u *User, repo string) { u.Git(repo, "checkout", "-q", "--detach", "v1") })},
		{Name: "sha256", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "repo"), "--object-format=sha256")
		}},
		{Name: "shallow", Make: shallow},
		{Name: "file names", Make: usual(fileNames)},
		{Name: "LFS pointers and a filter", Make: lfs},
		{Name: "sparse", Make: sparse},
		rare("partial clone", func(u *User, repo string) { u.Git(repo, "config", "remote.origin.promisor", "true") }),
		rare("reftable", func(u *User, repo string) { u.Write(repo, ".git/reftable/tables.list", "") }),
		rare("an extension that is not known", func(u *User, repo string) {
			u.Git(repo, "config", "extensions.ofTomorrow", "true")
		}),
		rare("objects of another repository", func(u *User, repo string) {
			u.Git(filepath.Dir(repo), "clone", "-q", "--bare", "repo", "other")
			u.Write(repo, ".git/objects/info/alternates", filepath.Join(filepath.Dir(repo), "other/objects")+"\n")
		}),
		rare("replaced objects", func(u *User, repo string) { u.Git(repo, "replace", "HEAD", "v1") }),
		rare("split index", func(u *User, repo string) { u.Git(repo, "update-index", "--split-index") }),
		rare("HEAD is a link", func(u *User, repo string) {
			remove(u, filepath.Join(repo, ".git/HEAD"))
			link(u, "refs/heads/main", filepath.Join(repo, ".git/HEAD"))
		}),
		{Name: "jj colocated", JJ: true, Make: func(u *User, dir string) string {
			return u.JJ(filepath.Join(dir, "repo"), "--colocate")
		}},
		{Name: "jj without a commit", JJ: true, Make: func(u *User, dir string) string {
			u.JJ(filepath.Join(dir, "made"))
			u.Must(dir, "jj", "git", "init", "--no-colocate", "repo")
			return filepath.Join(dir, "repo")
		}},
		{Name: "jj with conflicts", JJ: true, Make: jjConflict},
	}
}

// usual changes the usual repository.
func usual(change func(u *User, repo string)) func(*User, string) string {
	return func(u *User, dir string) string {
		repo := u.Repository(filepath.Join(dir, "repo"))
		change(u, repo)
		return repo
	}
}

func remove(u *User, path string) {
	u.Helper()
	if err := os.Remove(path); err != nil {
		u.Fatal(err)
	}
}

func link(u *User, target, path string) {
	u.Helper()
	if err := os.Symlink(target, path); err != nil {
		u.Fatal(err)
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

func submodule(u *User, dir string) string {
	library := u.Repository(filepath.Join(dir, "library"))
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Git(repo, "submodule", "--quiet", "add", library, "libs/library")
	u.Git(repo, "commit", "-q", "-m", "library")
	return repo
}

func shallow(u *User, dir string) string {
	u.Repository(filepath.Join(dir, "full"))
	u.Git(dir, "clone", "-q", "--depth", "1", "file://"+filepath.Join(dir, "full"), "repo")
	return filepath.Join(dir, "repo")
}

func fileNames(u *User, repo string) {
	for _, name := range []string{
		"with space", "-leading", "--help", "new\nline", "tab\t", "ünïcödé", "\xff\xfe", "quote\"s'", "*?[x]", ":(top)x", "~", "back\\slash", " ", "...", "$(x)", "\x1b[31m",
		"folder\n/-/file", strings.Repeat("n", 255),
	} {
		u.Write(repo, name, name)
	}
	link(u, "file.txt", filepath.Join(repo, "link"))
	link(u, "absent", filepath.Join(repo, "dangling"))
	u.Git(repo, "add", "-A")
	u.Git(repo, "commit", "-q", "-m", "names")
}

// lfs has what git-lfs writes, with a filter that works without it.
func lfs(u *User, dir string) string {
	repo := u.Repository(filepath.Join(dir, "repo"))
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0a", 32) + "\nsize 5\n"
	u.Commit(repo, "image.bin", pointer)
	u.Commit(repo, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	u.Git(repo, "config", "filter.lfs.clean", "git-lfs clean -- %f || cat")
	u.Git(repo, "config", "filter.lfs.smudge", "git-lfs smudge -- %f || cat")
	u.Git(repo, "config", "filter.lfs.required", "true")
	return repo
}

func sparse(u *User, dir string) string {
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Commit(repo, "docs/deep/page.txt", "page\n")
	u.Commit(repo, "src/main.txt", "main\n")
	u.Git(repo, "sparse-checkout", "set", "--cone", "docs")
	return repo
}

func jjConflict(u *User, dir string) string {
	repo := u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
	u.Write(repo, "file.txt", "left\n")
	u.Must(repo, "jj", "commit", "-m", "left")
	u.Must(repo, "jj", "new", "main", "-m", "right")
	u.Write(repo, "file.txt", "right\n")
	u.Must(repo, "jj", "new", "description(exact:\"left\n\")", "description(exact:\"right\n\")")
	return repo
}
