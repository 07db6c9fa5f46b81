package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A day is what is done with one sandbox on a worktree from `up` to `down`, beside git and cp(1) on
// a worktree of the host.

// smallFiles is how many files the small repository has, about those of this one.
const smallFiles = 1053

// commit makes one commit, of a new file.
const commit = "echo 1 >new && git add new && git -c user.name=bench -c user.email=bench@example.org commit -q -m one"

// importGoal is how long after a commit inside it may be in the user's repository.
const importGoal = 60 * time.Millisecond

func (b *bench) days(ctx context.Context) (rows []row, err error) {
	for _, files := range []int{smallFiles, b.o.files} {
		repo, err := b.repository(ctx, files)
		if err != nil {
			return rows, err
		}
		d := &day{bench: b, repo: repo, name: fmt.Sprintf("bench-day-%d", files), peer: filepath.Join(b.dir, fmt.Sprintf("peer-day-%d", files))}
		more, err := d.rows(ctx)
		for i := range more {
			more[i].what = fmt.Sprintf("%d files: %s", files, more[i].what)
		}
		if rows = append(rows, more...); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

type day struct {
	*bench
	repo, name, peer string // peer is a worktree that git makes
	turn             int
}

// step is one thing that is done in a day, in turn with a peer.
type step struct {
	what       string
	ours, peer contestant // peer nil: there is none
	goal       func(float64) string
}

func (d *day) steps() []step {
	copyTo := func(n string) contestant {
		return d.bench.peer("cp", "-a", "--reflink=auto", d.peer, d.peer+n).times
	}
	shell := func(script string) contestant { return d.bench.peer("sh", "-c", "cd "+d.peer+" && "+script).times }
	return []step{
		{"`up`, and `git worktree add`", d.onWorktree(d.name, d.repo).times, d.addWorktree(d.repo, d.peer).times, atMost(1.3)},
		{"import of one commit, from its end", d.imported, nil, nil},
		{"`diff --stat`, and git's", d.forage("diff", d.name, "--stat").times, shell(commit + " && git diff --stat main HEAD"), noGoal},
		{"first `snapshot`, and `cp -a --reflink=auto`", d.forage("snapshot", d.name, "create").times, copyTo(".1"), noGoal},
		{"second `snapshot`, and `cp -a --reflink=auto`", d.forage("snapshot", d.name, "create").times, copyTo(".2"), noGoal},
		{"`fork`, and `cp -a --reflink=auto`", d.forage("fork", d.name, d.name+"-fork").times, copyTo(".3"), noGoal},
		{"`apply` to a new branch, and `git branch`", d.applied, shell("git branch -f bench-taken"), noGoal},
		{"`down`, and `git worktree remove`", d.forage("down", d.name).times, d.bench.peer("git", "-C", d.repo, "worktree", "remove", "--force", d.peer).times, atMost(1.5)},
	}
}

// rows goes through a few days, the first of which is not measured, and looks at git's status in
// one more.
func (d *day) rows(ctx context.Context) ([]row, error) {
	steps := d.steps()
	ours, peers := make([]sample, len(steps)), make([]sample, len(steps))
	for d.turn = range 1 + max(1, d.o.runs/4) {
		for i, s := range steps {
			take(ctx, s.ours, &ours[i], d.turn > 0)
			if s.peer != nil {
				take(ctx, s.peer, &peers[i], d.turn > 0)
			}
		}
		if err := d.clear(context.WithoutCancel(ctx)); err != nil || ctx.Err() != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
	var rows []row
	for i, s := range steps {
		if s.peer != nil {
			rows = append(rows, compare(s.what, ours[i], peers[i], s.goal))
			continue
		}
		r := row{what: s.what, ours: ours[i].String(), target: verdict("at most "+short(importGoal), ours[i].median() <= importGoal)}
		if ours[i].err != nil {
			r.target, r.note = "", oneLine(ours[i].err.Error())
		}
		rows = append(rows, r)
	}
	status, err := d.status(ctx)
	return append(rows, status...), err
}

// take measures one step. What has failed once is out.
func take(ctx context.Context, c contestant, s *sample, counts bool) {
	took, err := c(ctx)
	if s.err = errors.Join(s.err, err); s.err == nil && counts {
		s.times = append(s.times, took)
	}
}

// imported has a commit made inside, and says how long after its end it is in the user's
// repository.
func (d *day) imported(ctx context.Context) (time.Duration, error) {
	ref := filepath.Join(d.repo, ".git/refs/heads/forage-"+d.name)
	before, err := os.ReadFile(ref)
	if err != nil {
		return 0, err
	}
	arrived := make(chan time.Time, 1)
	go func() {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if now, err := os.ReadFile(ref); err == nil && string(now) != string(before) {
				break
			}
		}
		arrived <- time.Now()
	}()
	out, err := d.forage("exec", d.name, "--", "sh", "-c", commit+" && date +%s%N").output(ctx)
	if err != nil {
		return 0, err
	}
	made, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return (<-arrived).Sub(time.Unix(0, made)), err
}

// applied takes the work over, each time to another branch.
func (d *day) applied(ctx context.Context) (time.Duration, error) {
	return d.forage("apply", d.name, "--into", fmt.Sprintf("bench-taken-%d", d.turn)).times(ctx)
}

// clear takes away what a day leaves.
func (d *day) clear(ctx context.Context) error {
	for _, copied := range []string{"", ".1", ".2", ".3"} {
		if err := os.RemoveAll(d.peer + copied); err != nil {
			return err
		}
	}
	_ = d.forage("down", "--force", d.name, d.name+"-fork").run(ctx) // as far as they are there
	_ = d.forage("snapshot", d.name, "delete", "--all").run(ctx)
	return d.dropWorktrees(ctx, d.repo, d.peer)
}

// status compares git status in a sandbox with the same in a worktree on the host.
func (d *day) status(ctx context.Context) (_ []row, err error) {
	if err := d.addWorktree(d.repo, d.peer).run(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.dropWorktrees(context.WithoutCancel(ctx), d.repo, d.peer)) }()
	return d.withSandboxOn(ctx, d.name, []string{"--git-worktree", d.repo}, func() ([]row, error) {
		if _, err := d.insider(filepath.Join(d.dir, "state/workspaces", d.name)); err != nil {
			return nil, err
		}
		insider, err := d.insider(d.peer)
		if err != nil {
			return nil, err
		}
		r, err := d.statusRow(ctx, "`git status` inside, and in a worktree on the host", d.name, insider, 1.02)
		return []row{r}, err
	})
}
