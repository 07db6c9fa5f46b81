package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A repository has its files on its branch main, and a tenth of them on its
// branch tenth, for what is done with many worktrees at once.
const (
	largeCommits = 5_000
	tenth        = "tenth"
)

// repository is made once in a run for a number of files. It has the index of a checkout, which is
// what is made last, and not the files.
func (b *bench) repository(ctx context.Context, files int) (string, error) {
	repo := filepath.Join(b.dir, fmt.Sprintf("repository-%d", files))
	if _, err := os.Stat(filepath.Join(repo, ".git/index")); !errors.Is(err, fs.ErrNotExist) {
		return repo, err
	}
	b.say("making a repository of %d files and %d commits", files, largeCommits)
	if err := errors.Join(os.RemoveAll(repo), b.peer("git", "init", "--quiet", "--initial-branch=main", repo).run(ctx)); err != nil {
		return "", err
	}
	fill := b.peer("git", "-C", repo, "fast-import", "--quiet")
	cmd := fill.cmd(ctx)
	cmd.Stdin = history(files, largeCommits)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fill.explain(err, out)
	}
	return repo, b.peer("git", "-C", repo, "read-tree", "main").run(ctx)
}

// history is what git-fast-import(1) reads: all files at first, then a few changes in each commit,
// then the other branch.
func history(files, commits int) *bytes.Buffer {
	var b bytes.Buffer
	for n := range commits {
		first, last := n*7, n*7+3
		if n == 0 {
			first, last = 0, files
		}
		writeCommit(&b, "main", n)
		writeFiles(&b, files, first, last, n)
	}
	writeCommit(&b, tenth, commits)
	fmt.Fprint(&b, "from refs/heads/main\ndeleteall\n")
	writeFiles(&b, files, 0, files/10, commits)
	return &b
}

func writeCommit(b *bytes.Buffer, branch string, n int) {
	message := fmt.Sprintf("commit %d\n", n)
	fmt.Fprintf(b, "commit refs/heads/%s\ncommitter bench <bench@example.org> %d +0000\ndata %d\n%s", branch, 1_700_000_000+n, len(message), message)
}

// writeFiles gives the files from first to before last, counted round and round, the contents that
// they have in commit n.
func writeFiles(b *bytes.Buffer, files, first, last, n int) {
	for i := first; i < last; i++ {
		f := i % files
		content := fmt.Sprintf("package p%d\n\n// File %d as of commit %d.\nconst C%d = %d\n", f%500, f, n, f, n)
		fmt.Fprintf(b, "M 100644 inline src/%02d/%03d/file%05d.go\ndata %d\n%s\n", f%50, f%500, f, len(content), content)
	}
}
