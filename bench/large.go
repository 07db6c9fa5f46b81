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

// largeCreate compares a sandbox on a new worktree, until it is usable, with a new worktree.
func (b *bench) largeCreate(ctx context.Context) ([]row, error) {
	repo, err := b.largeRepository(ctx)
	if err != nil {
		return nil, err
	}
	const name = "bench-large"
	peer := filepath.Join(b.dir, "peer")
	noSandbox := func(ctx context.Context) error { return b.forage("down", "--force", name).run(ctx) }
	noPeer := func(ctx context.Context) error { return b.dropWorktrees(ctx, repo, peer) }
	s := interleave(ctx, max(1, b.o.runs/8),
		undone(b.onWorktree(name, repo).times, noSandbox),
		undone(b.addWorktree(repo, peer).times, noPeer))
	what := fmt.Sprintf("a sandbox on a new worktree of %d files and %d commits, and `git worktree add`", b.o.files, largeCommits)
	return []row{compare(what, s[0], s[1], noGoal)}, nil
}

// largeStatus compares git status in such a sandbox with the same in a worktree on the host.
func (b *bench) largeStatus(ctx context.Context) (_ []row, err error) {
	repo, err := b.largeRepository(ctx)
	if err != nil {
		return nil, err
	}
	const name = "bench-large"
	tree, peer := filepath.Join(b.dir, "state/workspaces", name), filepath.Join(b.dir, "peer")
	if err := b.addWorktree(repo, peer).run(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.dropWorktrees(context.WithoutCancel(ctx), repo, peer)) }()
	return b.withSandboxOn(ctx, name, []string{"--git-worktree", repo}, func() ([]row, error) {
		if _, err := b.insider(tree); err != nil {
			return nil, err
		}
		insider, err := b.insider(peer)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("`git status` of %d files in a worktree sandbox, and in a worktree on the host", b.o.files)
		r, err := b.statusRow(ctx, what, name, insider, 1.05)
		return []row{r}, err
	})
}

// largeTwenty compares twenty sandboxes that are brought up at once with as many worktrees that git makes one after another:
// at once, its `git worktree add` fails, as it reads what another one hasn't finished.
func (b *bench) largeTwenty(ctx context.Context) ([]row, error) {
	repo, err := b.largeRepository(ctx)
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

// dropWorktrees removes what addWorktree made, all at once: `git worktree remove` would do it one by one.
func (b *bench) dropWorktrees(ctx context.Context, repo string, paths ...string) error {
	err := eachOf(2*runtime.NumCPU(), paths, os.RemoveAll)
	branches := []string{"git", "-C", repo, "branch", "--quiet", "-D"}
	for _, path := range paths {
		branches = append(branches, filepath.Base(path))
	}
	return errors.Join(err, b.peer("git", "-C", repo, "worktree", "prune").run(ctx), b.peer(branches...).run(ctx))
}
