// Package runtimetest is what every runtime has to pass: Conformance says that
// a sandbox is what its Spec says, Escape attacks it from inside. A runtime is
// plugged in by a Harness; what its Capabilities deny is left out, and has to be refused instead.
package runtimetest

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"forage"
	"forage/internal/guest/guestclient"
	"forage/internal/rootfs"
	"forage/internal/runtime"
	"forage/internal/supervisor"
	"forage/internal/testdir"
)

// patience bounds every wait for something that has to happen.
const patience = time.Minute

// Harness plugs a runtime in.
type Harness struct {
	// New makes the runtime for a run-time folder.
	New func(runtimeDir string) runtime.Runtime
	// Program is the built forage-ctl, which holds the probes.
	Program string
	// OwnKernel: a kernel of the sandbox's own is between the agent and the host's. What it tells of
	// itself is not looked at, and what is done in it counts only if the host sees it.
	OwnKernel bool
}

// host is a place on this host for one test's sandboxes.
type host struct {
	*testing.T
	Harness
	runtime   runtime.Runtime
	runDir    string
	state     string
	workspace string
}

func (h Harness) host(t *testing.T) *host {
	t.Helper()
	base, err := filepath.EvalSymlinks(testdir.Plain(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &host{T: t, Harness: h, runDir: filepath.Join(base, "run"), state: filepath.Join(base, "state"), workspace: filepath.Join(base, "work")}
	for _, dir := range []string{p.runDir, p.state, p.workspace} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.runtime = h.New(p.runDir)
	return p
}

// plan is that of a plain sandbox, with the host's root filesystem and no network.
func (h *host) plan(name string) forage.Plan {
	h.Helper()
	who := forage.Identity{
		User: forage.UserName, Home: forage.HomePath,
		UID: os.Getuid(), GID: os.Getgid(), HostUID: os.Getuid(), HostGID: os.Getgid(),
	}
	if who.UID == 0 {
		who.UID, who.GID, who.HostUID, who.HostGID = 1000, 1000, 0x6f000007, 0x6f000007
	}
	view, err := rootfs.Host(os.DirFS("/"), name, who)
	if err != nil {
		h.Fatal(err)
	}
	return forage.Plan{
		Name: name, Template: "generic", Runtime: h.runtime.Info().Name, Ephemeral: true,
		Workspace: forage.Workspace{Mode: forage.WorkspaceDirect, Path: h.workspace},
		Network:   forage.Network{Mode: forage.NetworkNone},
		Spec: forage.Spec{
			Name: name, Identity: who, Rootfs: forage.Rootfs{Kind: forage.RootfsHost},
			Mounts: append(view.Mounts, forage.Mount{Source: h.workspace, Target: forage.WorkspacePath, Writable: true}),
			Links:  view.Links, Files: view.Files,
			Env:     rootfs.Environment(name, who, rootfs.Shell(os.DirFS("/")), nil, ""),
			Dir:     forage.WorkspacePath,
			Network: forage.NetworkNone,
		},
	}
}

// box is a running sandbox.
type box struct {
	*host
	plan    forage.Plan
	sandbox *supervisor.Sandbox
	client  func() (*guestclient.Client, error) // made when first needed
	dir     string
}

// tryStart starts a sandbox, and leaves it to the test to like how that went.
func (h *host) tryStart(plan forage.Plan) (*box, error) {
	h.Helper()
	dir := filepath.Join(h.runDir, plan.Name)
	lock, err := supervisor.Acquire(dir)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { lock.Release() })
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	sandbox, err := supervisor.Start(ctx, supervisor.Setup{
		Plan: plan, Runtime: h.runtime, Dir: dir, Network: plan.Network,
		LogPath: filepath.Join(h.state, plan.Name+".log"), AuditPath: filepath.Join(h.state, plan.Name+".audit.jsonl"),
		ImageCache: filepath.Join(h.state, "images"),
	})
	if err != nil {
		return nil, err
	}
	b := &box{host: h, plan: plan, sandbox: sandbox, dir: dir}
	h.Cleanup(func() { b.stop() })
	b.client = sync.OnceValues(func() (*guestclient.Client, error) {
		client, err := guestclient.Dial(h.Context(), supervisor.SSHSocket(dir))
		if err == nil {
			h.Cleanup(func() { client.Close() })
		}
		return client, err
	})
	return b, nil
}

func (h *host) start(plan forage.Plan) *box {
	h.Helper()
	b, err := h.tryStart(plan)
	if err != nil {
		h.Fatalf("starting %s: %v (%s)", plan.Name, err, forage.Hint(err))
	}
	return b
}

// stop ends the sandbox, if it has not ended, and leaves nothing.
func (b *box) stop() {
	b.Helper()
	if err := b.sandbox.Stop(); err != nil {
		b.Errorf("stopping %s: %v", b.plan.Name, err)
	}
}

// eventually waits for a condition.
func (h *host) eventually(what string, is func() bool) {
	h.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			h.Fatalf("never came true: %s", what)
		}
	}
}

// result is how a command inside went.
type result struct {
	exit     int
	out, err string
}

func (b *box) run(argv ...string) result {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	client, err := b.client()
	if err != nil {
		b.Fatal(err)
	}
	var out, errs bytes.Buffer
	exit, err := client.Run(ctx, guestclient.Command{Argv: argv}, guestclient.Stdio{Out: &out, Err: &errs})
	if err != nil {
		b.Fatalf("running %q inside: %v\n%s%s", argv, err, out.String(), errs.String())
	}
	return result{exit.Code(), out.String(), errs.String()}
}

// sh runs a shell script inside.
func (b *box) sh(script string) result {
	b.Helper()
	return b.run("sh", "-c", script)
}

// works is sh of a script that has to succeed.
func (b *box) works(script string) string {
	b.Helper()
	r := b.sh(script)
	if r.exit != 0 {
		b.Errorf("%s: exit %d\n%s%s", script, r.exit, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// fails is sh of a script that must not succeed.
func (b *box) fails(script string) {
	b.Helper()
	if r := b.sh(script); r.exit == 0 {
		b.Errorf("this worked: %s\n%s%s", script, r.out, r.err)
	}
}

// rootfsKinds says whether the runtime takes root filesystems of that kind.
func (h *host) takes(kind forage.RootfsKind) bool {
	return slices.Contains(h.runtime.Info().Capabilities.Rootfs, kind)
}

// resolving makes name:port mean a server on this host's loopback.
func resolving(plan *forage.Plan, name string, port int, server netip.AddrPort) {
	plan.Facts.Resolve = map[string]string{fmt.Sprintf("%s:%d", name, port): server.String()}
}
