package workspacetest

import (
	"path/filepath"
	"strings"
)

// contents are repositories with files that git checks out in another way, or whose names are strange.
func contents() []Odd {
	return []Odd{
		{Name: "file names", Make: usual(fileNames)},
		{Name: "LFS pointers and a filter", Make: lfs},
		{Name: "end of lines", Make: usual(func(u *User, repo string) {
			u.Git(repo, "config", "core.autocrlf", "input")
			u.Commit(repo, ".gitattributes", "*.bat text eol=crlf\n*.bin -text\n")
			u.Commit(repo, "run.bat", "echo\r\n")
		})},
		{Name: "sparse in cones", Make: func(u *User, dir string) string { return sparse(u, dir, "--cone") }},
		{Name: "sparse by patterns", Make: func(u *User, dir string) string { return sparse(u, dir, "--no-cone") }},
	}
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

func sparse(u *User, dir, how string) string {
	repo := u.Repository(filepath.Join(dir, "repo"))
	u.Commit(repo, "docs/deep/page.txt", "page\n")
	u.Commit(repo, "src/main.txt", "main\n")
	u.Git(repo, "sparse-checkout", "set", how, "docs")
	return repo
}
