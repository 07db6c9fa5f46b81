package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"forage"
	"forage/internal/store"
	"forage/internal/workspace/hazard"
)

// Hazard is something in a workspace that tools of the host would execute, new or changed since the sandbox was made.
type Hazard struct {
	Part string `json:"part,omitempty"` // of a composed workspace; "" is the main one
	hazard.Finding
	// Immediate: it is met on cd, on opening the folder or on git status.
	Immediate bool `json:"immediate,omitempty"`
}

// baselines are what there was in each part of a workspace, by the part's name.
type baselines map[string]hazard.Baseline

// writable are the parts of a workspace that can be changed from inside; with modes, only those of these modes.
func writable(plan forage.Plan, modes ...forage.WorkspaceMode) []forage.Workspace {
	return slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool {
		return w.ReadOnly || len(modes) > 0 && !slices.Contains(modes, w.Mode)
	})
}

// look looks through the parts of a workspace, or those of the given modes, before anything runs in it.
func (s *Service) look(ctx context.Context, plan forage.Plan, modes ...forage.WorkspaceMode) (baselines, error) {
	before := baselines{}
	for _, w := range writable(plan, modes...) {
		found, err := hazard.Take(ctx, w.Path, s.namedByGit(ctx, w)...)
		if err != nil {
			return nil, err
		}
		before[w.Name] = found
	}
	return before, nil
}

// keepLook keeps what look found beside the sandbox's record.
func (s *Service) keepLook(ctx context.Context, plan forage.Plan) error {
	before, err := s.look(ctx, plan)
	if err != nil {
		return err
	}
	return writeJSON(s.lookFile(plan.Name), before)
}

func (s *Service) lookFile(name string) string {
	return filepath.Join(s.Places.Of(name).Generated, "hazards.json")
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

// Hazards are what tools of the host would execute in a sandbox's workspace, new or changed since it was made, the worst first.
func (s *Service) Hazards(ctx context.Context, name string) ([]Hazard, error) {
	record, err := s.Store.Load(name)
	if err != nil {
		return nil, err
	}
	return s.hazardsOf(ctx, record)
}

func (s *Service) hazardsOf(ctx context.Context, record store.Record) ([]Hazard, error) {
	if record.Phase == forage.PhaseCreating || record.Plan.Ephemeral {
		return nil, nil
	}
	before, err := s.looked(record.Name)
	if err != nil {
		return nil, err
	}
	return s.hazards(ctx, record.Plan, before)
}

// hazards compares the parts of a workspace, or those of the given modes, with what was there before.
func (s *Service) hazards(ctx context.Context, plan forage.Plan, before baselines, modes ...forage.WorkspaceMode) ([]Hazard, error) {
	var all []Hazard
	var failed []error
	for _, w := range writable(plan, modes...) {
		found, err := hazard.Scan(ctx, w.Path, before[w.Name], s.namedByGit(ctx, w)...)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the workspace is gone, and so is what could be executed
		}
		failed = append(failed, err)
		part := w.Name
		if part == plan.Workspace.Name {
			part = ""
		}
		for _, f := range found {
			all = append(all, Hazard{part, f, f.Kind.Immediate()})
		}
	}
	return all, errors.Join(failed...)
}

// looksPatience bounds how long ps waits for looks through workspaces, all together.
const looksPatience = 3 * time.Second

// CountHazards adds to each status how many hazards there are, as far as that can be found out in time.
func (s *Service) CountHazards(ctx context.Context, statuses []Status) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whoever is not waited for any more ends
	type look struct{ at, count int }
	done := make(chan look, len(statuses))
	places := make(chan struct{}, 2) // more only slow each other down
	for i, status := range statuses {
		statuses[i].HazardCount = -1
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			found, err := s.hazardsOf(ctx, status.Record)
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
			statuses[l.at].HazardCount = l.count
		case <-timer.C:
			return
		}
	}
}
