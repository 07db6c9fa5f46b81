package engine

import (
	"context"
	"os"

	"forage"
	"forage/internal/runtime"
)

// Check asks the engine, and starts a guest in a container that tries everything once. Nothing of it
// is left.
func (r *Runtime) Check(ctx context.Context) []runtime.Finding {
	f, err := r.ask()
	engine := runtime.Finding{Name: "engine", Required: true, OK: err == nil, Detail: string(r.client) + " " + f.version}
	if err != nil {
		engine.Detail, engine.Fix = err.Error(), forage.Hint(err)
		return []runtime.Finding{engine}
	}
	if f.rootless {
		engine.Detail += ", rootless"
	}
	findings, err := r.try(ctx, f)
	if err != nil {
		findings = append(findings, runtime.Finding{Name: "container", Required: true, Detail: err.Error(), Fix: forage.Hint(err)})
	}
	limit := func(name string, can bool) runtime.Finding {
		found := runtime.Finding{Name: name, OK: can, Detail: "the engine's control groups"}
		if !can {
			found.Detail, found.Fix = "this engine can't", "a rootless engine needs cgroups v2 with the controller delegated to you"
		}
		return found
	}
	return append(append([]runtime.Finding{engine}, findings...), limit("memoryMax", f.memory), limit("cpuQuota", f.cpu))
}

// try has the guest try what it relies on, in a container of its own.
func (r *Runtime) try(ctx context.Context, f facts) ([]runtime.Finding, error) {
	program, err := r.program()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "forage-trial-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	who := forage.Identity{UID: os.Geteuid(), GID: os.Getegid(), HostUID: os.Geteuid(), HostGID: os.Getegid()}
	if who.UID == 0 {
		who.UID, who.GID, who.HostUID, who.HostGID = 0x6fffffff, 0x6fffffff, 0x6fffffff, 0x6fffffff
	}
	c, err := r.create(ctx, f, forage.Spec{Name: trialName(dir), Identity: who}, dir, program)
	if err != nil {
		return nil, err
	}
	findings := r.child(c).Check(ctx)
	return findings, c.close()
}

// trialName is a name that no other trial has.
func trialName(dir string) string { return "trial-" + dir[len(dir)-6:] }
