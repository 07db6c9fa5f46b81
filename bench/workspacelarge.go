package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The large repository.
const (
	largeFiles   = 50_000
	largeCommits = 5_000
	largeAtOnce  = 20
)

// large measures worktree sandboxes of a large repository beside git's own worktrees.
func (b *bench) large(ctx context.Context) ([]row, error) {
	repo, err := b.largeRepository(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := b.creation(ctx, repo)
	if err != nil {
		return rows, err
	}
	more, err := b.largeStatus(ctx, repo)
	rows = append(rows, more...)
	if err != nil {
		return rows, err
	}
	r, err := b.atOnce(ctx, repo)
	return append(rows, r), errors.Join(err, b.leftovers(ctx, repo))
}

// creation compares a sandbox on a new worktree, until it is usable, with a new worktree.
func (b *bench) creation(ctx context.Context, repo string) ([]row, error) {
	const name = "bench-large"
	peer := filepath.Join(b.dir, "peer")
	ours := func(ctx context.Context) (time.Duration, error) {
		took, err := b.forage("up", name, "--git-worktree", repo, "--", "sleep", "infinity").times(ctx)
		return took, errors.Join(err, b.forage("down", "--force", name).run(ctx))
	}
	theirs := func(ctx context.Context) (time.Duration, error) {
		took, err := b.peer("git", "-C", repo, "worktree", "add", "--quiet", "-b", "peer", peer).times(ctx)
		return took, errors.Join(err, b.dropWorktree(ctx, repo, peer))
	}
	s := interleave(ctx, max(3, b.o.runs/6), ours, theirs)
	what := fmt.Sprintf("a sandbox on a new worktree of %d files and %d commits, and `git worktree add`", largeFiles, largeCommits)
	return []row{compare(what, s[0], s[1], noGoal)}, nil
}

// dropWorktree removes a worktree of the peer's and its branch, which has the worktree's name.
func (b *bench) dropWorktree(ctx context.Context, repo, path string) error {
	return errors.Join(
		b.peer("git", "-C", repo, "worktree", "remove", "--force", path).run(ctx),
		b.peer("git", "-C", repo, "branch", "--quiet", "-D", filepath.Base(path)).run(ctx))
}

// largeStatus compares git status in the sandbox with the same in a worktree of the host's.
func (b *bench) largeStatus(ctx context.Context, repo string) ([]row, error) {
	const name = "bench-large"
	peer := filepath.Join(b.dir, "peer")
	if err := b.peer("git", "-C", repo, "worktree", "add", "--quiet", "-b", "peer", peer).run(ctx); err != nil {
		return nil, err
	}
	if err := b.forage("up", name, "--git-worktree", repo, "--", "sleep", "infinity").run(ctx); err != nil {
		return nil, errors.Join(err, b.dropWorktree(ctx, repo, peer))
	}
	rows, err := b.statusIn(ctx, name, peer)
	return rows, errors.Join(err, b.forage("down", "--force", name).run(context.WithoutCancel(ctx)), b.dropWorktree(context.WithoutCancel(ctx), repo, peer))
}

func (b *bench) statusIn(ctx context.Context, name, peer string) ([]row, error) {
	tree := filepath.Join(b.dir, "state", "workspaces", name)
	raw, err := os.ReadFile(b.self)
	if err != nil {
		return nil, err
	}
	old := time.Now().Add(-time.Hour)
	for _, dir := range []string{tree, peer} {
		// Files as new as the index are read again by each status (Git's racy-git documentation).
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "bench-inside"), raw, 0o755), age(dir, old)); err != nil {
			return nil, err
		}
	}
	inside := place{enter: func(args ...string) command {
		return b.forage(append([]string{"exec", name, "--", "/workspace/bench-inside"}, args...)...)
	}}
	outside := place{enter: func(args ...string) command {
		c := b.peer(append([]string{filepath.Join(peer, "bench-inside")}, args...)...)
		c.dir = peer
		return c
	}}
	for _, p := range []place{inside, outside} { // takes the new times into the index
		if _, err := p.measure("time", "git", "status", "--porcelain")(ctx); err != nil {
			return nil, err
		}
	}
	status := []string{"time", "git", "--no-optional-locks", "status", "--porcelain"}
	s := interleave(ctx, b.o.runs, inside.measure(status...), outside.measure(status...))
	what := fmt.Sprintf("`git status` of %d files in a worktree sandbox, and in a worktree on the host", largeFiles)
	return []row{compare(what, s[0], s[1], atMost(1.05))}, nil
}

// age makes every file in dir older.
func age(dir string, when time.Time) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Chtimes(path, when, when)
	})
}

// atOnce compares twenty sandboxes that are brought up at once with as many worktrees that git makes, at once too.
func (b *bench) atOnce(ctx context.Context, repo string) (row, error) {
	var names, paths []string
	for i := range largeAtOnce {
		names = append(names, fmt.Sprintf("bench-large-%d", i))
		paths = append(paths, filepath.Join(b.dir, fmt.Sprintf("peer-%d", i)))
	}
	start := time.Now()
	err := eachOf(largeAtOnce, names, func(name string) error {
		return b.forage("up", name, "--git-worktree", repo, "--", "sleep", "infinity").run(ctx)
	})
	ours := sample{times: []time.Duration{time.Since(start)}, err: err}
	down := b.forage("down", "--all", "--force").run(context.WithoutCancel(ctx))
	start = time.Now()
	err = eachOf(largeAtOnce, paths, func(path string) error {
		return b.peer("git", "-C", repo, "worktree", "add", "--quiet", "-b", filepath.Base(path), path).run(ctx)
	})
	peer := sample{times: []time.Duration{time.Since(start)}, err: err}
	for _, path := range paths {
		down = errors.Join(down, b.dropWorktree(context.WithoutCancel(ctx), repo, path))
	}
	return compare(fmt.Sprintf("%d such sandboxes at once, and %d times `git worktree add` at once", largeAtOnce, largeAtOnce), ours, peer, noGoal), down
}

// leftovers says so when the repository isn't as it was.
func (b *bench) leftovers(ctx context.Context, repo string) error {
	refs, err := b.peer("git", "-C", repo, "for-each-ref", "--format=%(refname)", "refs/heads").output(ctx)
	if err == nil && string(refs) != "refs/heads/main\n" {
		err = fmt.Errorf("the repository is left with the branches %q", refs)
	}
	return errors.Join(err, b.peer("git", "-C", repo, "fsck", "--connectivity-only", "--no-dangling").run(ctx))
}

// largeRepository is a fresh clone of the large repository, which is made once and kept in the user's cache.
func (b *bench) largeRepository(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(cache, "forage-bench", fmt.Sprintf("repository-%d-%d.git", largeFiles, largeCommits))
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		b.say("making a repository of %d files and %d commits in %s", largeFiles, largeCommits, kept)
		if err := b.makeLarge(ctx, kept); err != nil {
			return "", err
		}
	}
	repo := filepath.Join(b.dir, "large")
	return repo, b.peer("git", "clone", "--quiet", "--local", kept, repo).run(ctx)
}

// makeLarge makes the repository beside path, and moves it there when it is whole.
func (b *bench) makeLarge(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(path), "repository-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	stream := filepath.Join(b.dir, "stream")
	defer os.Remove(stream)
	if err := errors.Join(writeStream(stream), b.peer("git", "init", "--quiet", "--bare", "--initial-branch=main", fresh).run(ctx)); err != nil {
		return err
	}
	for _, script := range []string{`git -C "$0" fast-import --quiet <"$1"`, `git -C "$0" repack -adq && git -C "$0" pack-refs --all`} {
		if err := b.peer("sh", "-c", script, fresh, stream).run(ctx); err != nil {
			return err
		}
	}
	return os.Rename(fresh, path)
}

// writeStream writes the history, for git-fast-import(1): all files at first, then a few changes in each commit.
func writeStream(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	for n := range largeCommits {
		message := fmt.Sprintf("commit %d\n", n)
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter bench <bench@example.org> %d +0000\ndata %d\n%s", 1_700_000_000+n, len(message), message)
		first, last := n*7, n*7+3
		if n == 0 {
			first, last = 0, largeFiles
		}
		for i := first; i < last; i++ {
			f := i % largeFiles
			content := fmt.Sprintf("package p%d\n\n// File %d as of commit %d.\nconst C%d = %d\n", f%500, f, n, f, n)
			fmt.Fprintf(w, "M 100644 inline src/%02d/%03d/file%05d.go\ndata %d\n%s\n", f%50, f%500, f, len(content), content)
		}
	}
	return errors.Join(w.Flush(), file.Close())
}
