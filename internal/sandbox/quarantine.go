package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/hazard"
)

// QuarantineOptions say what Quarantine moves aside.
type QuarantineOptions struct {
	// All: also what takes a build, a push or a start by name. Else what is met on the way, but for repositories that were there before.
	All bool
	// Paths choose findings, or folders with findings in them, relative to the workspace; All has no meaning then.
	Paths []string
}

// Quarantined is one thing that was moved aside, or could not be.
type Quarantined struct {
	Hazard
	To    string `json:"to,omitempty"`    // on the host
	Error string `json:"error,omitempty"` // why it is where it was
}

// ended is what quarantine has to know of a sandbox that is gone.
type ended struct {
	Plan   forage.Plan // its workspaces only
	Before baselines
}

// Quarantine moves hazards out of a workspace, into a folder of ours. It deletes nothing. The sandbox may run: what the
// agent does meanwhile can keep it from moving something, not lead it outside. After `run`, the name is the run's.
func (s *Service) Quarantine(ctx context.Context, name string, options QuarantineOptions) ([]Quarantined, error) {
	plan, before, err := s.lookedAt(name)
	if err != nil {
		return nil, err
	}
	found, err := hazards(ctx, plan, before)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(found, before, plan, options)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	aside := filepath.Join(s.quarantineDir(name), time.Now().UTC().Format("20060102T150405.000000000Z"))
	far := newFarBudget()
	var moved []Quarantined
	var failed []error
	for _, h := range chosen {
		m := Quarantined{Hazard: h}
		part := cmp.Or(h.Part, workspace.Main)
		if m.To, err = moveAside(ctx, partPath(plan, h.Part), h.Path, filepath.Join(aside, part), far); err != nil {
			m.Error = err.Error()
			failed = append(failed, fmt.Errorf("moving %q aside: %w", h.Path, err))
		}
		moved = append(moved, m)
	}
	return moved, errors.Join(failed...)
}

func (s *Service) quarantineDir(name string) string {
	return filepath.Join(s.Places.State, "quarantine", name)
}

// endedFile holds what quarantine has to know after the sandbox is gone.
func (s *Service) endedFile(name string) string {
	return filepath.Join(s.Places.State, "quarantine", name+".json")
}

// keepEnded keeps what there was in the user's own folders before a sandbox that ends. Trees of ours go with it.
func (s *Service) keepEnded(plan forage.Plan, before baselines) error {
	e := ended{Plan: forage.Plan{Name: plan.Name, Workspace: plan.Workspace, Parts: plan.Parts}, Before: before}
	return writeJSON(s.endedFile(plan.Name), e)
}

// lookedAt are the workspaces of a sandbox, or of a run that has ended, and what was in them before.
func (s *Service) lookedAt(name string) (forage.Plan, baselines, error) {
	record, err := s.Store.Load(name)
	if err == nil && !record.Plan.Ephemeral {
		before, err := s.looked(name)
		return record.Plan, before, err
	}
	var e ended
	if readErr := readJSON(s.endedFile(name), &e); readErr == nil {
		return e.Plan, e.Before, nil
	} else if !errors.Is(readErr, fs.ErrNotExist) {
		return forage.Plan{}, nil, readErr
	}
	if err == nil {
		err = forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is a run that has not ended", name), "its findings are shown when it has")
	}
	return forage.Plan{}, nil, err
}

func partPath(plan forage.Plan, part string) string {
	for _, w := range plan.Parts {
		if w.Name == part {
			return w.Path
		}
	}
	return plan.Workspace.Path
}

// choose are those findings that the options mean.
func choose(found []Hazard, before baselines, plan forage.Plan, options QuarantineOptions) ([]Hazard, error) {
	if len(options.Paths) > 0 {
		return findingsAt(found, options.Paths)
	}
	return slices.DeleteFunc(found, func(h Hazard) bool {
		_, known := before[cmp.Or(h.Part, plan.Workspace.Name)][h.Path]
		switch h.Kind {
		case hazard.KindRepository: // moving a repository that was there is for who has looked at it
			return known
		case hazard.KindUnseen:
			return true
		}
		return !options.All && !h.Immediate
	}), nil
}

// findingsAt are the findings at or below those paths. A path without one is an error: it would be taken for safe.
func findingsAt(found []Hazard, paths []string) ([]Hazard, error) {
	var chosen []Hazard
	for _, p := range paths {
		p = path.Clean(filepath.ToSlash(p))
		any := false
		for _, h := range found {
			if h.Path != p && !below(h.Path, p) {
				continue
			}
			any = true
			if !slices.Contains(chosen, h) {
				chosen = append(chosen, h)
			}
		}
		if !any {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "nothing at %q is new or changed that host tools would execute", p),
				"paths are relative to the workspace, as `forage-ctl status` shows them")
		}
	}
	return chosen, nil
}

// quarantineKept is how long what quarantine needs to know outlives a run.
const quarantineKept = 30 * 24 * time.Hour

// quarantines removes what quarantine has to know of runs that ended long ago. What was moved aside stays for good.
func (c *collector) quarantines() error {
	dir := filepath.Join(c.Places.State, "quarantine")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		name, isNote := strings.CutSuffix(entry.Name(), ".json")
		info, err := entry.Info()
		if !isNote || err != nil || time.Since(info.ModTime()) < quarantineKept {
			continue
		}
		errs = append(errs, c.do(name, "removed what quarantine would need", func() error { return os.Remove(filepath.Join(dir, entry.Name())) }))
	}
	return errors.Join(errs...)
}
