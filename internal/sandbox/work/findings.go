package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/workspace/autorun"
)

// Finding is something in a workspace that tools of the host would execute, new or changed since
// the sandbox was made.
type Finding struct {
	Part string `json:"part,omitempty"` // of a composed workspace; "" is the main one
	autorun.Finding
	// Immediate: it is met on cd, on opening the folder or on git status.
	Immediate bool `json:"immediate,omitempty"`
}

// Baselines are what there was in each part of a workspace, by the part's name.
type Baselines map[string]autorun.Baseline

// maxIdentities is how many files with setuid or setgid a workspace may have: each is a mount.
const maxIdentities = 100

// look looks through the parts of a workspace before anything runs in it. It adds files with setuid
// or setgid to those that the spec protects: a write takes these bits away, one through a mapping
// does not.
func (k *Keeper) Look(ctx context.Context, p forage.Plan, spec *forage.Spec) (Baselines, error) {
	before := Baselines{}
	spec.Protect = slices.Clone(spec.Protect)
	for _, w := range plan.Writable(p) {
		found, identities, err := autorun.Look(ctx, w.Path, k.Host.NamedByGit(ctx, w)...)
		if err != nil {
			return nil, err
		}
		before[w.Name] = found
		if len(identities) > maxIdentities {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s has %d files with setuid or setgid, which an agent could change", w.Path, len(identities)),
				"take the bits away (chmod -R ug-s), or show the folder read-only")
		}
		for _, name := range identities {
			if target := path.Join(w.Target, name); !slices.Contains(spec.Protect, target) {
				spec.Protect = append(spec.Protect, target)
			}
		}
	}
	return before, nil
}

// keepLook keeps what look found beside the sandbox's record.
func (k *Keeper) KeepLook(ctx context.Context, record *store.Record) error {
	protected := len(record.Plan.Spec.Protect)
	before, err := k.Look(ctx, record.Plan, &record.Plan.Spec)
	if err != nil {
		return err
	}
	if len(record.Plan.Spec.Protect) > protected {
		if err := k.Host.Store.Save(*record); err != nil {
			return err
		}
	}
	return store.WriteJSON(k.LookFile(record.Name), before)
}

func (k *Keeper) LookFile(name string) string {
	return filepath.Join(k.Host.Places.Of(name).Generated, "autorun.json")
}

// looked is what keepLook kept. Without it everything is new.
func (k *Keeper) Looked(name string) (Baselines, error) {
	before := Baselines{}
	err := store.ReadJSON(k.LookFile(name), &before)
	if errors.Is(err, fs.ErrNotExist) {
		return before, nil
	}
	return before, err
}

// Findings are what tools of the host would execute in a sandbox's workspace, new or changed since
// it was made, the worst first.
func (k *Keeper) Findings(ctx context.Context, name string) ([]Finding, error) {
	record, err := k.Host.Store.Load(name)
	if err != nil {
		return nil, err
	}
	return k.FindingsOf(ctx, record)
}

func (k *Keeper) FindingsOf(ctx context.Context, record store.Record) ([]Finding, error) {
	if record.Phase == forage.PhaseCreating || record.Plan.Ephemeral {
		return nil, nil
	}
	before, err := k.Looked(record.Name)
	if err != nil {
		return nil, err
	}
	return k.findings(ctx, record.Plan, before)
}

// findings compares the parts of a workspace, or those of the given modes, with what was there
// before.
func (k *Keeper) findings(ctx context.Context, p forage.Plan, before Baselines, modes ...forage.WorkspaceMode) ([]Finding, error) {
	var all []Finding
	var failed []error
	for _, w := range plan.Writable(p, modes...) {
		found, err := autorun.Scan(ctx, w.Path, before[w.Name], k.Host.NamedByGit(ctx, w)...)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the workspace is gone, and so is what could be executed
		}
		failed = append(failed, err)
		part := w.Name
		if part == p.Workspace.Name {
			part = ""
		}
		for _, f := range found {
			all = append(all, Finding{part, f, f.Kind.Immediate()})
		}
	}
	return all, errors.Join(failed...)
}

// maxTold is how many findings the end of a run names.
const maxTold = 10

// tellCount says that there are findings which are met without the user's doing anything.
func (k *Keeper) TellCount(ctx context.Context, record store.Record) {
	found, err := k.FindingsOf(ctx, record)
	if err != nil {
		k.Notify(fmt.Sprintf("the workspace could not be looked through for what host tools execute: %v", err))
	}
	count := 0
	for _, h := range found {
		if h.Immediate {
			count++
		}
	}
	if count > 0 {
		k.Notify(fmt.Sprintf("tools of the host execute what is new or changed in the workspace (%d): `forage-ctl status %s` names it", count, record.Name))
	}
}

// tellLast is tellFindings for a sandbox that is removed.
func (k *Keeper) TellLast(ctx context.Context, record store.Record) {
	before, err := k.Looked(record.Name)
	if err != nil {
		k.Notify(fmt.Sprintf("what was in the workspace before is not known: %v", err))
	}
	k.TellFindings(ctx, record.Plan, before)
}

// tellFindings says at the end of a run what tools of the host would execute of what it left,
// before they do. What is needed to move it aside outlives the run.
//
// It is about the user's own folders: a tree of ours is about to go.
func (k *Keeper) TellFindings(ctx context.Context, plan forage.Plan, before Baselines) {
	found, err := k.findings(ctx, plan, before, forage.WorkspaceDirect)
	if err != nil {
		k.Notify(fmt.Sprintf("the workspace could not be looked through for what host tools execute: %v", err))
	}
	if len(found) == 0 {
		return
	}
	for _, h := range found[:min(len(found), maxTold)] {
		file := h.Path
		if h.Part != "" {
			file += " (in " + h.Part + ")"
		}
		k.Notify(file + ": " + h.Why)
	}
	if more := len(found) - maxTold; more > 0 {
		k.Notify(fmt.Sprintf("%d more files that host tools would execute are new or changed", more))
	}
	if err := k.keepEnded(plan, before); err != nil {
		k.Notify(fmt.Sprintf("what quarantine needs to know could not be kept: %v", err))
		return
	}
	k.Notify("`forage-ctl quarantine " + plan.Name + "` moves aside what runs unasked (on cd, in an editor, by git); with --all, everything")
}
