package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// workspace compares work on the mounted files with the same work on the host.
func (b *bench) workspace(ctx context.Context) ([]row, error) {
	insider, err := b.insider(b.project)
	if err != nil {
		return nil, err
	}
	defer os.Remove(insider)
	if err := b.makeProject(ctx); err != nil {
		return nil, err
	}
	goTool, up, err := goTool()
	if err != nil {
		return nil, err
	}
	const name = "bench-work"
	return b.withSandbox(ctx, name, up, func() ([]row, error) {
		status, err := b.statusRow(ctx, fmt.Sprintf("`git status` of %d files in the workspace, and on the host", projectFiles), name, insider, 1.02)
		if err != nil {
			return nil, err
		}
		s := interleave(ctx, max(5, b.o.runs/4),
			b.building(place{enter: b.inSandbox(name)}, "/workspace", goTool), b.building(b.beside(insider), b.project, goTool))
		return []row{status, compare("`go build` with an empty cache in the workspace, and on the host", s[0], s[1], atMost(1.02))}, nil
	})
}

// beside is the place on the host where insider is.
func (b *bench) beside(insider string) place {
	return place{enter: func(args ...string) command {
		c := b.peer(append([]string{insider}, args...)...)
		c.dir = filepath.Dir(insider)
		return c
	}}
}

// statusRounds are many, as a few hundredths are to be told, and each is short.
const statusRounds = 101

// statusRow compares git status in a sandbox with the same on the host, beside insider. One that
// only looks is measured, after one that has written the index anew: files as new as the index
// would be read each time (Git's racy-git documentation).
func (b *bench) statusRow(ctx context.Context, what, name, insider string, goal float64) (row, error) {
	inside, outside := place{enter: b.inSandbox(name)}, b.beside(insider)
	settle(ctx)
	for _, p := range []place{inside, outside} {
		if _, err := p.measure("time", "git", "status", "--porcelain")(ctx); err != nil {
			return row{}, err
		}
	}
	status := []string{"time", "git", "--no-optional-locks", "status", "--porcelain"}
	s := interleave(ctx, max(statusRounds, b.o.runs), inside.measure(status...), outside.measure(status...))
	r := compare(what, s[0], s[1], atMost(goal))
	if r.note == "" {
		r.note = fmt.Sprintf("%d runs", len(s[0].times))
	}
	return r, nil
}

// settle waits until no file counts as written a moment ago.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
	}
}

// building compiles the project and what it needs of the standard library.
func (b *bench) building(p place, root, goTool string) contestant {
	build := p.measure("time", "env", "HOME=/tmp", "GOCACHE="+root+"/.cache", "GOPATH="+root+"/.gopath", "GOFLAGS=-mod=mod", "GOPROXY=off",
		"GOTOOLCHAIN=local", "GOTELEMETRY=off", "CGO_ENABLED=0", goTool, "build", "-buildvcs=false", "-o", root+"/.built", ".")
	return func(ctx context.Context) (time.Duration, error) {
		if err := os.RemoveAll(filepath.Join(b.project, ".cache")); err != nil {
			return 0, err
		}
		return build(ctx)
	}
}

// goTool finds the Go command, and what a sandbox needs to see it.
func goTool() (path string, up []string, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", nil, fmt.Errorf("finding Go: %w", err)
	}
	root, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		return "", nil, err
	}
	if !inSystemFolders(root + "/") {
		up = []string{"--mount", root + ":" + root + ":ro"}
	}
	return filepath.Join(root, "bin/go"), up, nil
}

// projectFiles is how many files the project has, about those of a middling repository.
const projectFiles = 4000

// makeProject fills the workspace with a Git repository that is also a Go module.
func (b *bench) makeProject(ctx context.Context) error {
	files := map[string]string{
		"go.mod":     "module project\n\ngo 1.21\n",
		".gitignore": ".cache\n.gopath\n.built\nbench-inside\n",
		"main.go":    "package main\n\nimport (\n\t\"encoding/json\"\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n\tfmt.Println(json.NewEncoder(os.Stdout).Encode(os.Args))\n}\n",
	}
	for i := range projectFiles - len(files) {
		files[fmt.Sprintf("docs/%02d/%04d.txt", i%64, i)] = fmt.Sprintf("file %d\n", i)
	}
	for name, content := range files {
		path := filepath.Join(b.project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"git", "init", "--quiet"}, {"git", "add", "--all"},
		{"git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "commit", "--quiet", "--message", "project"},
	} {
		if err := b.peer(args...).run(ctx); err != nil {
			return err
		}
	}
	return nil
}
