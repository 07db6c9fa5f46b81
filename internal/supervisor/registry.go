package supervisor

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/runtime"
	"forage/internal/runtime/bwrap"
	"forage/internal/runtime/child"
	"forage/internal/runtime/engine"
	"forage/internal/runtime/native"
	"forage/internal/runtime/nspawn"
	"forage/internal/runtime/oci"
	"forage/internal/workspace"
	"forage/internal/workspace/clone"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/jj"
	"forage/internal/workspace/worktree"
)

// planned are the runtimes that Forage knows by name and this version is without.
var planned = [...]string{"vm", "kubernetes", "apple"}

// knownRuntime is a runtime of this version.
type knownRuntime struct {
	name string
	make func(Runtimes) runtime.Runtime
	// detect says, after a quick look at the host, what the runtime lacks there. Every start that
	// names no runtime asks.
	detect func(runtime.Environment) error
}

// known are the runtimes of this version, best first.
var known = []knownRuntime{
	{native.Name, func(r Runtimes) runtime.Runtime { return native.New(r.Dir, "") }, child.Detect},
	{bwrap.Name, func(r Runtimes) runtime.Runtime { return bwrap.New(r.Dir, "") }, bwrap.Detect},
	{oci.Name, func(r Runtimes) runtime.Runtime { return oci.New(r.Dir, "", "") }, oci.Detect},
	{engine.Podman, Runtimes.podman, engine.Detect(engine.Podman)},
	{engine.Docker, Runtimes.docker, engine.Detect(engine.Docker)},
	{nspawn.Name, func(r Runtimes) runtime.Runtime { return nspawn.New(r.Dir, "") }, nspawn.Detect},
}

// Runtimes makes runtimes by name, for the run-time folder Dir.
type Runtimes struct {
	Dir    string
	Order  []string     // the user's order of choice; those that it doesn't name are not chosen
	Early  *child.Early // for the first native sandbox; nil is none
	Prefix string       // of the names of an engine's containers
}

func (r Runtimes) podman() runtime.Runtime { return r.engine(engine.Podman) }
func (r Runtimes) docker() runtime.Runtime { return r.engine(engine.Docker) }

func (r Runtimes) engine(name string) runtime.Runtime {
	return engine.New(name, r.Dir, "", engine.Options{Prefix: r.Prefix})
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
func (r Runtimes) Names() (names []string) {
	for _, one := range known {
		names = append(names, one.name)
	}
	return names
}

// Choose is the first runtime of the order that may be used and that the host seems to have what it
// needs for, and why those before it are not. Where there is none, it is the first of the order: to
// use that says what to do.
func (r Runtimes) Choose(env runtime.Environment, forbidden func(name string) error) (name string, passed []runtime.Finding) {
	order := r.Order
	if len(order) == 0 {
		order = r.Names()
	}
	for _, name := range order {
		err := forage.Errorf(forage.ErrUnsupported, "this version is without it")
		for _, one := range known {
			if one.name == name {
				err = cmp.Or(forbidden(name), one.detect(env))
			}
		}
		if err == nil {
			return name, passed
		}
		passed = append(passed, runtime.Finding{Name: name, Detail: err.Error(), Fix: forage.Hint(err)})
	}
	return order[0], passed
}

// ThisHost is the host that this program runs on.
func ThisHost() runtime.Environment {
	return runtime.Environment{UID: os.Geteuid(), LookPath: hostexec.Find, ReadFile: os.ReadFile}
}

// New makes the runtime of that name.
func (r Runtimes) New(name string) (runtime.Runtime, error) {
	for _, one := range known {
		if one.name != name {
			continue
		}
		rt := one.make(r)
		if prepared, ok := rt.(*child.Runtime); ok && name == native.Name {
			prepared.Take(r.Early)
		}
		return rt, nil
	}
	if program, named := strings.CutPrefix(name, oci.Name+":"); named && program != "" {
		return oci.New(r.Dir, program, ""), nil
	}
	hint := "this version has: " + strings.Join(r.Names(), ", ")
	if slices.Contains(planned[:], name) {
		return nil, forage.WithHint(forage.Errorf(forage.ErrUnsupported, "runtime %q is not in this version", name), hint)
	}
	return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "there is no runtime %q", name), hint)
}

// ImageBuild is an image that an engine of the host is to make.
type ImageBuild = engine.Build

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
