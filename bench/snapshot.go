package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// snapshot keeps and restores a big workspace without a repository, beside cp(1) and rsync(1) over
// the same files. No cache is dropped: what was written a moment ago is in memory for all alike.
func (b *bench) snapshot(ctx context.Context) ([]row, error) {
	s := &snapshots{bench: b, tree: filepath.Join(b.dir, "snapshot-tree"), copied: filepath.Join(b.dir, "snapshot-copy")}
	defer os.RemoveAll(s.tree)
	defer os.RemoveAll(s.copied)
	if err := s.fill(); err != nil {
		return nil, err
	}
	rows, err := b.withSandboxOn(ctx, s.name(), []string{"-w", s.tree}, func() ([]row, error) { return s.rows(ctx) })
	return rows, errors.Join(err, s.forget(context.WithoutCancel(ctx)))
}

type snapshots struct {
	*bench
	tree, copied string
	files        []string
	first        string // ID of a snapshot of tree as fill made it
}

func (s *snapshots) name() string { return "bench-snapshot" }

func (s *snapshots) rows(ctx context.Context) ([]row, error) {
	settle(ctx)
	n := max(1, min(3, s.o.runs/8))
	what := fmt.Sprintf("%.3g GB in %d files", float64(s.o.workspace)/1e9, len(s.files))
	create := s.forage("snapshot", s.name(), "create")
	cp := s.peer("cp", "-a", "--reflink=auto", s.tree, s.copied)
	follow, name := s.follow(s.tree, s.copied)

	first := interleave(ctx, n, after(create.times, s.forget), after(cp.times, s.noCopy))
	rows := []row{compare("first snapshot of "+what+", and `cp -a --reflink=auto`", first[0], first[1], noGoal)}
	if err := s.remember(ctx); err != nil {
		return rows, err
	}
	same := interleave(ctx, n, create.times, follow.times)
	changed := interleave(ctx, n, after(create.times, s.change), after(follow.times, s.change))
	restore := s.forage("snapshot", s.name(), "restore", s.first)
	copyBack := s.peer("cp", "-a", "--reflink=auto", s.copied+"/.", s.tree)
	little := interleave(ctx, n, after(restore.times, s.change))
	all := interleave(ctx, n, after(restore.times, s.empty), after(copyBack.times, s.empty))
	return append(rows,
		compare("snapshot with nothing changed, and the first copy", same[0], first[1], atMost(0.2)),
		compare("snapshot with nothing changed, and `"+name+"`", same[0], same[1], noGoal),
		compare("snapshot with 1 % of the files changed, and `"+name+"`", changed[0], changed[1], noGoal),
		compare("restore with 1 % of the files changed, and the first copy", little[0], first[1], atMost(0.3)),
		compare("restore of all files, and `cp -a --reflink=auto` back", all[0], all[1], noGoal),
	), nil
}

// follow brings a copy up to date: with rsync, or without it as well as cp can.
func (s *snapshots) follow(from, to string) (c command, name string) {
	if _, err := exec.LookPath("rsync"); err == nil {
		return s.peer("rsync", "-a", "--delete", from+"/", to), "rsync -a --delete"
	}
	return s.peer("cp", "-a", "--update", from+"/.", to), "cp -a --update"
}

// forget removes all snapshots, with their contents.
func (s *snapshots) forget(ctx context.Context) error {
	ids, err := s.ids(ctx)
	for _, id := range ids {
		err = errors.Join(err, s.forage("snapshot", s.name(), "delete", id).run(ctx))
	}
	return errors.Join(err, s.forage("gc").run(ctx))
}

func (s *snapshots) ids(ctx context.Context) ([]string, error) {
	out, err := s.forage("snapshot", s.name(), "list").output(ctx)
	if err != nil && strings.Contains(err.Error(), "no sandbox") {
		return nil, nil
	}
	var ids []string
	for i, line := range strings.Split(string(out), "\n") {
		if words := strings.Fields(line); i > 0 && len(words) > 0 {
			ids = append(ids, words[0])
		}
	}
	return ids, err
}

// remember finds the snapshot that is restored later.
func (s *snapshots) remember(ctx context.Context) error {
	ids, err := s.ids(ctx)
	if err == nil && len(ids) == 0 {
		err = errors.New("there is no snapshot")
	}
	if err == nil {
		s.first = ids[0]
	}
	return err
}

func (s *snapshots) noCopy(context.Context) error { return os.RemoveAll(s.copied) }

// empty removes all files, and not the folder, which is mounted.
func (s *snapshots) empty(context.Context) error {
	entries, err := os.ReadDir(s.tree)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.tree, entry.Name())))
	}
	return err
}

// fill makes the files: most are small, most bytes are in large ones, and none is like another.
func (s *snapshots) fill() error {
	random := rand.NewChaCha8([32]byte{1})
	for left, i := s.o.workspace, 0; left > 0; i++ {
		size := int64(10_000)
		switch {
		case i%1000 == 0:
			size = 50_000_000
		case i%50 == 0:
			size = 1_000_000
		}
		size = min(size, left)
		left -= size
		name := filepath.Join(s.tree, fmt.Sprintf("%02d/%02d/file-%d", i%40, i/40%40, i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		content := make([]byte, size)
		if _, err := random.Read(content); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
		s.files = append(s.files, name)
	}
	return nil
}

// change makes every hundredth file another, in content and time.
func (s *snapshots) change(context.Context) error {
	for i := 1; i < len(s.files); i += 100 {
		content := make([]byte, 10_000)
		for j := range content {
			content[j] = byte(rand.Uint32())
		}
		if err := os.WriteFile(s.files[i], content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
