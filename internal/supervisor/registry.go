package supervisor

import (
	"context"
	"os"
	"strings"

	"forage"
	"forage/internal/runtime"
	"forage/internal/runtime/bwrap"
	"forage/internal/runtime/child"
	"forage/internal/runtime/native"
	"forage/internal/workspace"
	"forage/internal/workspace/clone"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/jj"
	"forage/internal/workspace/worktree"
)

// planned are the runtimes that Forage knows by name and this version is without.
var planned = [...]string{"oci", "docker", "podman", "nspawn", "vm", "kubernetes", "apple"}

// Runtimes makes runtimes by name, for the run-time folder Dir.
type Runtimes struct {
	Dir   string
	Early *child.Early // for the first sandbox of the default runtime; nil is none
}

// Begin begins a guest of the default runtime, for Runtimes.Early. It ends with ctx if no sandbox
// took it. It is nil for root, whose sandboxes have ids that a plan chooses.
func Begin(ctx context.Context) *child.Early {
	if os.Geteuid() == 0 {
		return nil
	}
	return native.New("", "").Begin(ctx, forage.Identity{})
}

// Names are the runtimes of this version, best first.
func (r Runtimes) Names() []string { return []string{native.Name, bwrap.Name} }

// Default is the runtime that is used where none is named.
func (r Runtimes) Default() string { return native.Name }

// New makes the runtime of that name.
func (r Runtimes) New(name string) (runtime.Runtime, error) {
	switch name {
	case native.Name:
		rt := native.New(r.Dir, "")
		rt.Take(r.Early)
		return rt, nil
	case bwrap.Name:
		return bwrap.New(r.Dir, ""), nil
	}
	hint := "this version has: " + strings.Join(r.Names(), ", ")
	for _, known := range planned {
		if name == known {
			return nil, forage.WithHint(forage.Errorf(forage.ErrUnsupported, "runtime %q is not in this version", name), hint)
		}
	}
	return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "there is no runtime %q", name), hint)
}

// Workspaces makes providers of workspaces, which make what they make in Places.
type Workspaces struct {
	Places workspace.Places
}

// New makes the provider of that mode.
func (w Workspaces) New(mode forage.WorkspaceMode) (workspace.Provider, error) {
	switch mode {
	case forage.WorkspaceDirect:
		return direct.Provider{Places: w.Places}, nil
	case forage.WorkspaceWorktree:
		return worktree.Provider{Places: w.Places}, nil
	case forage.WorkspaceClone:
		return clone.Provider{Places: w.Places, Environ: os.Environ()}, nil
	case forage.WorkspaceJJ:
		return jj.Provider{Places: w.Places}, nil
	}
	return nil, forage.Errorf(forage.ErrUnsupported, "workspaces of the kind %q are not in this version", mode)
}
