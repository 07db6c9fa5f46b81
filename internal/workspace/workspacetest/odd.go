package workspacetest

import (
	"fmt"
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
	// Newer says that it takes NewerGit to make it and to use it. Who has only an older git refuses it.
	Newer bool
}

// Odds are all of them. A provider works with one, or refuses it before it has made anything.
func Odds() []Odd {
	return []Odd{
		{Name: "submodule that is populated", Make: func(u *User, dir string) string { return submodule(u, dir, true) }},
		{Name: "submodule that is not populated", Make: func(u *User, dir string) string { return submodule(u, dir, false) }},
		{Name: "nested submodules", Make: nestedSubmodules},
		{Name: "LFS pointers and a filter", Make: lfs},
		{Name: "sparse in cones", Make: func(u *User, dir string) string { return sparse(u, dir, "--cone") }},
		{Name: "sparse by patterns", Make: func(u *User, dir string) string { return sparse(u, dir, "--no-cone") }},
		{Name: "linked worktree", Make: linkedWorktree},
		{Name: "linked worktree of a bare repository", Make: worktreeOfBare},
		{Name: "bare", Make: bare, Bare: true},
		{Name: "separate git folder", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "work"), "--separate-git-dir", filepath.Join(dir, "elsewhere"))
		}},
		{Name: "no commit yet", Make: func(u *User, dir string) string {
			u.Git(dir, "init", "-q", "repo")
			u.Write(dir, "repo/file.txt", "not committed\n")
			return filepath.Join(dir, "repo")
		}},
		{Name: "detached HEAD", Make: usual(func(u *User, repo string) { u.Git(repo, "checkout", "-q", "--detach", "v1") })},
		{Name: "middle of a merge", Make: usual(unfinishedMerge)},
		{Name: "index is locked", Make: usual(func(u *User, repo string) { u.Write(repo, ".git/index.lock", "") })},
		{Name: "no index", Make: usual(func(u *User, repo string) { remove(u, filepath.Join(repo, ".git/index")) })},
		{Name: "index of version 4, split, with extensions", Make: usual(func(u *User, repo string) {
			u.Git(repo, "update-index", "--index-version", "4", "--split-index", "--untracked-cache")
		})},
		{Name: "many packed refs", Make: usual(manyRefs)},
		{Name: "branch names", Make: usual(branchNames)},
		{Name: "file names", Make: usual(fileNames)},
		{Name: "path of the repository", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "-with space, \"quotes\" $(x) \n new line é"))
		}},
		{Name: "shallow", Make: shallow},
		{Name: "alternates of its own", Make: alternates},
		{Name: "alternates in a chain", Make: alternatesChain},
		{Name: "objects in packs with all extras", Make: usual(func(u *User, repo string) {
			u.Git(repo, "repack", "-q", "-a", "-d", "--write-midx", "--write-bitmap-index")
			u.Git(repo, "commit-graph", "write", "--reachable")
			u.Git(repo, "pack-refs", "--all")
		})},
		{Name: "replacements and grafts", Make: usual(func(u *User, repo string) {
			u.Git(repo, "replace", "HEAD", "v1")
			u.Write(repo, ".git/info/grafts", u.Git(repo, "rev-parse", "v1")+"\n")
		})},
		{Name: "worktree configuration", Make: usual(func(u *User, repo string) {
			u.Git(repo, "config", "extensions.worktreeConfig", "true")
			u.Git(repo, "config", "--worktree", "core.sparseCheckout", "false")
		})},
		{Name: "partial clone", Make: partial},
		{Name: ".git is a link", Make: usual(func(u *User, repo string) {
			elsewhere := filepath.Join(filepath.Dir(repo), "elsewhere")
			if err := os.Rename(filepath.Join(repo, ".git"), elsewhere); err != nil {
				u.Fatal(err)
			}
			link(u, elsewhere, filepath.Join(repo, ".git"))
		})},
		{Name: "HEAD is a link", Make: usual(func(u *User, repo string) {
			remove(u, filepath.Join(repo, ".git/HEAD"))
			link(u, "refs/heads/main", filepath.Join(repo, ".git/HEAD"))
		})},
		{Name: "end of lines", Make: usual(func(u *User, repo string) {
			u.Git(repo, "config", "core.autocrlf", "input")
			u.Commit(repo, ".gitattributes", "*.bat text eol=crlf\n*.bin -text\n")
			u.Commit(repo, "run.bat", "echo\r\n")
		})},
		{Name: "sha256", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "repo"), "--object-format=sha256")
		}},
		{Name: "reftable", Newer: true, Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "repo"), "--ref-format=reftable")
		}},
		{Name: "jj colocated", JJ: true, Make: func(u *User, dir string) string {
			return u.JJ(filepath.Join(dir, "repo"), "--colocate")
		}},
		{Name: "jj without a commit", JJ: true, Make: func(u *User, dir string) string {
			u.JJ(filepath.Join(dir, "made"))
			u.Must(dir, "jj", "git", "init", "--no-colocate", "repo")
			return filepath.Join(dir, "repo")
		}},
		{Name: "jj second workspace", JJ: true, Make: func(u *User, dir string) string {
			u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
			u.Must(filepath.Join(dir, "repo"), "jj", "workspace", "add", filepath.Join(dir, "second"))
			return filepath.Join(dir, "second")
		}},
		{Name: "jj sparse", JJ: true, Make: func(u *User, dir string) string {
			repo := u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
			u.Must(repo, "jj", "sparse", "set", "--clear", "--add", "docs")
			return repo
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

func sparse(u *User, dir, how string) string {
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Commit(repo, "docs/deep/page.txt", "page\n")
	u.Commit(repo, "src/main.txt", "main\n")
	u.Git(repo, "sparse-checkout", "set", how, "docs")
	return repo
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

func unfinishedMerge(u *User, repo string) {
	u.Git(repo, "checkout", "-q", "-b", "other", "v1")
	u.Commit(repo, "file.txt", "one\nother\n")
	u.Git(repo, "checkout", "-q", "main")
	if out, err := u.Try(repo, "git", "merge", "other"); err == nil {
		u.Fatalf("the merge has no conflict\n%s", out)
	}
}

// ManyRefs is how many refs the repository with many has.
const ManyRefs = 5_000

func manyRefs(u *User, repo string) {
	head := u.Git(repo, "rev-parse", "HEAD")
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range ManyRefs {
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

func shallow(u *User, dir string) string {
	u.Repository(filepath.Join(dir, "full"))
	u.Git(dir, "clone", "-q", "--depth", "1", "file://"+filepath.Join(dir, "full"), "repo")
	return filepath.Join(dir, "repo")
}

func alternates(u *User, dir string) string {
	u.Repository(filepath.Join(dir, "full"))
	u.Git(dir, "clone", "-q", "--shared", "full", "repo")
	u.Commit(filepath.Join(dir, "repo"), "own.txt", "own\n")
	return filepath.Join(dir, "repo")
}

func alternatesChain(u *User, dir string) string {
	repo := alternates(u, dir)
	u.Git(dir, "clone", "-q", "--shared", repo, "second")
	u.Commit(filepath.Join(dir, "second"), "second.txt", "second\n")
	return filepath.Join(dir, "second")
}

func partial(u *User, dir string) string {
	full := u.Repository(filepath.Join(dir, "full"))
	u.Git(full, "config", "uploadpack.allowFilter", "true")
	u.Git(dir, "clone", "-q", "--filter=blob:none", "file://"+full, "repo")
	return filepath.Join(dir, "repo")
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
