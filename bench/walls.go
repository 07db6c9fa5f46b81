package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// wallImage is a container image of the peers' own, with the host's busybox.
const wallImage = "localhost/forage-bench/busybox:1"

// wall is a runtime, and the bare tool that it drives.
type wall struct {
	runtime string
	bare    func(context.Context) contestant
}

func (b *bench) wallList() []wall {
	return []wall{
		{"native", func(context.Context) contestant { return b.bwrap() }},
		{"bwrap", func(context.Context) contestant { return b.bwrap() }},
		{"oci", b.runc},
		{"podman", func(ctx context.Context) contestant { return b.bareEngine(ctx, "podman") }},
		{"oci:runsc", func(context.Context) contestant { return absent("no bundle for bare runsc") }},
		{"docker", func(ctx context.Context) contestant { return b.bareEngine(ctx, "docker") }},
	}
}

// bareEngine is a container without a network in which a program just starts.
func (b *bench) bareEngine(ctx context.Context, engine string) contestant {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return absent("busybox: %v", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return absent("%v", err)
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	err = w.WriteHeader(&tar.Header{Name: "true", Mode: 0o755, Size: int64(len(program))})
	if err == nil {
		_, err = w.Write(program)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return absent("%v", err)
	}
	file := filepath.Join(b.dir, engine+".tar")
	if err := os.WriteFile(file, image.Bytes(), 0o600); err != nil {
		return absent("%v", err)
	}
	if err := b.peer(engine, "import", file, wallImage).run(ctx); err != nil {
		return absent("%s: %v", engine, err)
	}
	return b.peer(engine, "run", "--rm", "--network", "none", wallImage, "/true").times
}

// walls measures each runtime beside the bare tool that it drives: the start, a command in a sandbox
// that runs, and memory.
func (b *bench) walls(ctx context.Context) ([]row, error) {
	var rows []row
	for _, wall := range b.wallList() {
		s := interleave(ctx, b.o.runs, b.forage("run", "--runtime", wall.runtime, "-w", b.project, "--", "true").times, wall.bare(ctx))
		start := compare(wall.runtime+": cold start, and the bare tool's", s[0], s[1], noGoal)
		if start.ratio != "" {
			more := s[0].median() - s[1].median()
			start.target = verdict(fmt.Sprintf("at most 15 ms more (%s)", short(more)), more.Milliseconds() <= 15)
		}
		rows = append(rows, start)
		if s[0].err != nil {
			continue
		}
		more, err := b.withSandbox(ctx, "bench-wall", []string{"--runtime", wall.runtime}, func() ([]row, error) {
			s := interleave(ctx, b.o.runs, b.forage("exec", "bench-wall", "--", "true").times, b.forage("run", "-w", b.project, "--", "true").times)
			exec := compare(wall.runtime+": `exec -- true`, and native's cold start", s[0], s[1], noGoal)
			select { // what follows a start is not idling
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(3 * time.Second):
			}
			p, err := b.processes(ctx, "bench-wall")
			if err != nil {
				return []row{exec}, nil
			}
			memory := b.memory(p)
			memory.what = wall.runtime + ": " + memory.what
			return []row{exec, memory}, nil
		})
		if err != nil {
			return rows, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}
