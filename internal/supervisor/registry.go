package supervisor

import (
	"os"
	"strings"

	"forage"
	"forage/internal/runtime"
	"forage/internal/runtime/bwrap"
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
	Dir string
}

// Names are the runtimes of this version, best first.
func (r Runtimes) Names() []string { return []string{native.Name, bwrap.Name} }

// Default is the runtime that is used where none is named.
func (r Runtimes) Default() string { return native.Name }

// New makes the runtime of that name.
func (r Runtimes) New(name string) (runtime.Runtime, error) {
	switch name {
	case native.Name:
		return native.New(r.Dir, ""), nil
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
