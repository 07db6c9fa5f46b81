package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"forage"
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

// baselines are what there was in each part of a workspace, by the part's name.
type baselines map[string]autorun.Baseline

// writable are the parts of a workspace that can be changed from inside; with modes, only those of
// these modes.
func writable(plan forage.Plan, modes ...forage.WorkspaceMode) []forage.Workspace {
	return slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool {
		return w.ReadOnly || len(modes) > 0 && !slices.Contains(modes, w.Mode)
	})
}

// maxIdentities is how many files with setuid or setgid a workspace may have: each is a mount.
const maxIdentities = 100

// look looks through the parts of a workspace before anything runs in it. It adds files with setuid
// or setgid to those that the spec protects: a write takes these bits away, one through a mapping
// does not.
func (s *Service) look(ctx context.Context, plan forage.Plan, spec *forage.Spec) (baselines, error) {
	before := baselines{}
	spec.Protect = slices.Clone(spec.Protect)
	for _, w := range writable(plan) {
		found, identities, err := autorun.Look(ctx, w.Path, s.namedByGit(ctx, w)...)
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
func (s *Service) keepLook(ctx context.Context, record *store.Record) error {
	protected := len(record.Plan.Spec.Protect)
	before, err := s.look(ctx, record.Plan, &record.Plan.Spec)
	if err != nil {
		return err
	}
	if len(record.Plan.Spec.Protect) > protected {
		if err := s.Store.Save(*record); err != nil {
			return err
		}
	}
	return writeJSON(s.lookFile(record.Name), before)
}

func (s *Service) lookFile(name string) string {
	return filepath.Join(s.Places.Of(name).Generated, "autorun.json")
}

// looked is what keepLook kept. Without it everything is new.
func (s *Service) looked(name string) (baselines, error) {
	before := baselines{}
	err := readJSON(s.lookFile(name), &before)
	if errors.Is(err, fs.ErrNotExist) {
		return before, nil
	}
	return before, err
}

// Findings are what tools of the host would execute in a sandbox's workspace, new or changed since
// it was made, the worst first.
func (s *Service) Findings(ctx context.Context, name string) ([]Finding, error) {
	record, err := s.Store.Load(name)
	if err != nil {
		return nil, err
	}
	return s.findingsOf(ctx, record)
}

func (s *Service) findingsOf(ctx context.Context, record store.Record) ([]Finding, error) {
	if record.Phase == forage.PhaseCreating || record.Plan.Ephemeral {
		return nil, nil
	}
	before, err := s.looked(record.Name)
	if err != nil {
		return nil, err
	}
	return s.findings(ctx, record.Plan, before)
}

// findings compares the parts of a workspace, or those of the given modes, with what was there
// before.
func (s *Service) findings(ctx context.Context, plan forage.Plan, before baselines, modes ...forage.WorkspaceMode) ([]Finding, error) {
	var all []Finding
	var failed []error
	for _, w := range writable(plan, modes...) {
		found, err := autorun.Scan(ctx, w.Path, before[w.Name], s.namedByGit(ctx, w)...)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the workspace is gone, and so is what could be executed
		}
		failed = append(failed, err)
		part := w.Name
		if part == plan.Workspace.Name {
			part = ""
		}
		for _, f := range found {
			all = append(all, Finding{part, f, f.Kind.Immediate()})
		}
	}
	return all, errors.Join(failed...)
}

// looksPatience bounds how long ps waits for looks through workspaces, all together.
const looksPatience = 3 * time.Second

// CountFindings adds to each status how many findings there are, as far as that can be found out in
// time.
func (s *Service) CountFindings(ctx context.Context, statuses []Status) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // who is not waited for any more ends
	type look struct{ at, count int }
	done := make(chan look, len(statuses))
	places := make(chan struct{}, 2) // more only slow each other down
	for i, status := range statuses {
		statuses[i].FindingCount = -1
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			found, err := s.findingsOf(ctx, status.Record)
			if err != nil {
				done <- look{i, -1}
				return
			}
			done <- look{i, len(found)}
		}()
	}
	timer := time.NewTimer(looksPatience)
	defer timer.Stop()
	for range statuses {
		select {
		case l := <-done:
			statuses[l.at].FindingCount = l.count
		case <-timer.C:
			return
		}
	}
}
