package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// largeTwenty compares twenty sandboxes that are brought up at once with as many worktrees that git
// makes one after another: at once, its `git worktree add` fails, as it reads what another one
// hasn't finished.
func (b *bench) largeTwenty(ctx context.Context) ([]row, error) {
	repo, err := b.repository(ctx, b.o.files)
	if err != nil {
		return nil, err
	}
	const twenty = 20
	var names, paths []string
	for i := range twenty {
		names = append(names, fmt.Sprintf("bench-large-%d", i))
		paths = append(paths, filepath.Join(b.dir, fmt.Sprintf("peer-%d", i)))
	}
	all := func(which []string, at int, each func(string) command) contestant {
		return func(ctx context.Context) (time.Duration, error) {
			start := time.Now()
			err := eachOf(at, which, func(one string) error { return each(one).run(ctx) })
			return time.Since(start), err
		}
	}
	noSandboxes := func(ctx context.Context) error { return b.forage("down", "--all", "--force").run(ctx) }
	noPeers := func(ctx context.Context) error { return b.dropWorktrees(ctx, repo, paths...) }
	s := once(ctx,
		undone(all(names, twenty, func(name string) command { return b.onWorktree(name, repo, "--branch", tenth) }), noSandboxes),
		undone(all(paths, 1, func(path string) command { return b.addWorktree(repo, path, tenth) }), noPeers))
	what := fmt.Sprintf("%d sandboxes at once on new worktrees of %d files, and %d times `git worktree add`", twenty, b.o.files/10, twenty)
	return []row{compare(what, s[0], s[1], noGoal)}, nil
}

// onWorktree brings up a sandbox on a new worktree.
func (b *bench) onWorktree(name, repo string, more ...string) command {
	return b.forage(append(append([]string{"up", name, "--git-worktree", repo}, more...), "--", "sleep", "infinity")...)
}

// addWorktree makes a worktree as git does, on a branch with the folder's name.
func (b *bench) addWorktree(repo, path string, start ...string) command {
	return b.peer(append([]string{"git", "-C", repo, "worktree", "add", "--quiet", "-b", filepath.Base(path), path}, start...)...)
}

// dropWorktrees removes what addWorktree made, all at once: `git worktree remove` would do it one
// by one.
func (b *bench) dropWorktrees(ctx context.Context, repo string, paths ...string) error {
	err := eachOf(2*runtime.NumCPU(), paths, os.RemoveAll)
	branches := []string{"git", "-C", repo, "branch", "--quiet", "-D"}
	for _, path := range paths {
		branches = append(branches, filepath.Base(path))
	}
	return errors.Join(err, b.peer("git", "-C", repo, "worktree", "prune").run(ctx), b.peer(branches...).run(ctx))
}
