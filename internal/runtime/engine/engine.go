// Package engine has a container engine, docker or podman, put its walls around a sandbox. The
// container lends namespaces, control groups, a filter and no network; in it our own program, as the
// caller and without any capability, makes the sandbox as native does (child.Contain). So a sandbox
// is the same inside, and the engine's walls are outside of its own.
//
// The engine is driven by its command line: contexts, logins and rootless set-ups just work. Its
// socket is never inside.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/runtime"
	"forage/internal/runtime/child"
)

// The engines, and the runtimes' names in plans and commands.
const (
	Docker = "docker"
	Podman = "podman"
)

// Options may be left out.
type Options struct {
	Prefix string // of containers' names; "" is "forage-"
	// For tests. Stream: nothing but the engine's own streams leads to the container, as where the engine is in
	// a machine of its own.
	Stream bool
}

// Runtime is an engine as a runtime.
type Runtime struct {
	client
	dir     string // the run-time folder
	self    string // the guest's program; "" is the running one
	options Options
	ask     func() (facts, error)
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes the runtime of that engine for a run-time folder. self is the program that is started
// as guest; "" is the running one.
func New(engine, dir, self string, options Options) *Runtime {
	r := &Runtime{client: client(engine), dir: dir, self: self, options: options}
	r.ask = sync.OnceValues(func() (facts, error) { return r.client.ask(context.Background()) })
	return r
}

// Detect says what a host lacks, after a quick look.
func Detect(engine string) func(runtime.Environment) error {
	return func(env runtime.Environment) error {
		if _, err := env.LookPath(engine); err != nil {
			return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s: %w", engine, err), "install "+engine)
		}
		return child.Detect(env) // containers are bound by the same rules
	}
}

// child is what makes the sandbox in a container.
func (r *Runtime) child(c *container) *child.Runtime {
	return child.New(child.Config{
		Name: string(r.client), Description: string(r.client) + "'s containers around the same walls as native",
		Namespaces: c, Dir: r.dir, Self: r.self, Stream: r.options.Stream, Place: c.Place,
	})
}

func (r *Runtime) idle() *child.Runtime { return r.child(&container{client: r.client}) }

// Info says what the runtime can enforce.
func (r *Runtime) Info() runtime.Info { return r.idle().Info() }

// Has says whether the root filesystem of spec has a program at file.
func (r *Runtime) Has(spec forage.Spec, file string) bool { return r.idle().Has(spec, file) }

// within is spec without the limits that the engine enforces.
func within(spec forage.Spec) forage.Spec {
	spec.Limits.MemoryMax, spec.Limits.CPUQuota = 0, 0
	return spec
}

// Supports reports what spec asks for and this engine can't enforce.
func (r *Runtime) Supports(spec forage.Spec) error {
	if err := r.idle().Supports(within(spec)); err != nil {
		return err
	}
	if !limited(spec) {
		return nil // Start asks the engine
	}
	f, err := r.ask()
	if err != nil {
		return err
	}
	for _, limit := range []struct {
		name  string
		asked bool
		can   bool
	}{{"memoryMax", spec.Limits.MemoryMax > 0, f.memory}, {"cpuQuota", spec.Limits.CPUQuota > 0, f.cpu}} {
		if limit.asked && !limit.can {
			return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s can't enforce %s here", r.client, limit.name),
				"a rootless engine needs cgroups v2 with the controller delegated to you; or leave out the limit")
		}
	}
	return nil
}

func limited(spec forage.Spec) bool { return spec.Limits.MemoryMax > 0 || spec.Limits.CPUQuota > 0 }

// known is what a start has to know of the engine. podman takes longer to say it than for all the
// rest, and is not asked where it is plain.
func (r *Runtime) known(spec forage.Spec) (facts, error) {
	elsewhere := os.Getenv("CONTAINER_HOST") != "" || os.Getenv("CONTAINER_CONNECTION") != ""
	if r.client == Podman && !limited(spec) && !elsewhere {
		return facts{rootless: os.Geteuid() != 0}, nil
	}
	return r.ask()
}

// program is the guest's program on the host.
func (r *Runtime) program() (string, error) {
	path := r.self
	if path == "" {
		path = "/proc/self/exe"
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("finding the running program: %w", err)
	}
	return real, nil
}

// Start starts a container, and the sandbox in it.
func (r *Runtime) Start(ctx context.Context, req runtime.Request) (runtime.Instance, error) {
	c, err := r.prepare(ctx, req)
	if err != nil {
		for _, f := range []*os.File{req.SSH, req.Log} {
			if f != nil {
				f.Close()
			}
		}
		return nil, err
	}
	req.Spec = within(req.Spec)
	inner, err := r.child(c).Start(ctx, req)
	if err != nil {
		return nil, errors.Join(err, c.close(), child.Forget(req.Dir))
	}
	i := &instance{Instance: inner, container: c, done: make(chan struct{})}
	go func() {
		<-inner.Done()
		i.err = errors.Join(c.why(inner.Err()), c.close())
		close(i.done)
	}()
	return i, nil
}

func (r *Runtime) prepare(ctx context.Context, req runtime.Request) (*container, error) {
	if err := r.Supports(req.Spec); err != nil {
		return nil, err
	}
	f, err := r.known(req.Spec)
	if err != nil {
		return nil, err
	}
	program, err := r.program()
	if err != nil {
		return nil, err
	}
	if err := r.idle().Announce(req.Dir); err != nil {
		return nil, err
	}
	c, err := r.create(ctx, f, req.Spec, req.Dir, program)
	if err != nil {
		if _, unfit := r.ask(); unfit != nil { // which says more
			err = unfit
		}
		return nil, errors.Join(err, child.Forget(req.Dir))
	}
	return c, nil
}

// instance is a sandbox in its container.
type instance struct {
	runtime.Instance
	container *container
	done      chan struct{} // closed when the container is gone, too
	err       error
}

// PID is that of the container's first process.
func (i *instance) PID() int { return i.container.pid }

func (i *instance) Done() <-chan struct{} { return i.done }

// Err says, after Done, why the sandbox ended.
func (i *instance) Err() error {
	select {
	case <-i.done:
		return i.err
	default:
		return nil
	}
}

// Stop ends the sandbox and waits until its container is gone.
func (i *instance) Stop(ctx context.Context, grace time.Duration) error {
	if err := i.Instance.Stop(ctx, grace); err != nil {
		return err
	}
	select {
	case <-i.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Destroy removes what is left of a sandbox: the client that held it, and its container.
func (r *Runtime) Destroy(ctx context.Context, name string) error {
	left, err := r.idle().List(ctx)
	if err != nil {
		return err
	}
	if err := r.idle().Destroy(ctx, name); err != nil {
		return err
	}
	if _, err = r.removeOurs(ctx, name); err != nil && slices.Contains(left, name) {
		return fmt.Errorf("destroying %s: %w", name, err)
	}
	return nil
}

// List names the sandboxes that left something. An engine that can't be asked is passed over: what
// was started with it is on record all the same.
func (r *Runtime) List(ctx context.Context) ([]string, error) {
	names, err := r.idle().List(ctx)
	if err != nil {
		return nil, err
	}
	if r.client == Podman && os.Geteuid() != 0 && len(names) == 0 {
		return nil, ctx.Err() // to ask starts a process that stays: podman-system-migrate(1)
	}
	label := `{{.Label "` + labelName + `"}}`
	if r.client == Podman {
		label = `{{index .Labels "` + labelName + `"}}`
	}
	containers, err := r.ours(ctx, label)
	if err != nil {
		return names, ctx.Err()
	}
	names = append(names, slices.DeleteFunc(containers, func(name string) bool { return forage.CheckName(name) != nil })...)
	slices.Sort(names)
	return slices.Compact(names), ctx.Err()
}

// removeOurs removes the containers of a sandbox, and says whether there were any.
func (r *Runtime) removeOurs(ctx context.Context, name string) (bool, error) {
	ids, err := r.ours(ctx, "{{.ID}}", "--filter", "label="+labelName+"="+name)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	return true, r.remove(ctx, ids...)
}

// ours prints something of each container that belongs to our run-time folder.
func (r *Runtime) ours(ctx context.Context, format string, filter ...string) ([]string, error) {
	if _, err := hostexec.Find(string(r.client)); err != nil {
		return nil, r.explain(err, "")
	}
	args := append([]string{"ps", "--all", "--no-trunc", "--filter", "label=" + labelDir + "=" + r.dir, "--format", format}, filter...)
	out, err := r.run(ctx, nil, args...)
	return strings.Fields(out), err
}
