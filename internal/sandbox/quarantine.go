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
	"forage/internal/workspace/autorun"
)

// QuarantineOptions say what Quarantine moves aside.
type QuarantineOptions struct {
	// All: also what is executed only by a build, a push or when it is started by name. Without it,
	// only what is met on the way, and no repository that was there before.
	All bool
	// Paths choose findings, or folders with findings in them, relative to the workspace; All has
	// no meaning then.
	Paths []string
}

// Quarantined is one thing that was moved aside, or could not be.
type Quarantined struct {
	Finding
	To    string `json:"to,omitempty"`    // on the host
	Error string `json:"error,omitempty"` // why it is where it was
}

// ended is what Quarantine needs to know of a run after it has ended.
type ended struct {
	Plan   forage.Plan // its workspaces only
	Before baselines
}

// Quarantine moves findings out of a workspace, into a folder of ours. It deletes nothing. The
// sandbox may be running: its agent can keep Quarantine from moving something, but can't lead it
// out of the workspace. The name may be that of a run that has ended.
func (s *Service) Quarantine(ctx context.Context, name string, options QuarantineOptions) ([]Quarantined, error) {
	plan, before, err := s.lookedAt(name)
	if err != nil {
		return nil, err
	}
	found, err := s.findings(ctx, plan, before)
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
		m := Quarantined{Finding: h}
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

// endedFile holds the ended of a run.
func (s *Service) endedFile(name string) string {
	return filepath.Join(s.Places.State, "quarantine", name+".json")
}

// keepEnded writes down what was in the user's own folders before a run, for Quarantine. Trees that
// Forage made go with the run.
func (s *Service) keepEnded(plan forage.Plan, before baselines) error {
	e := ended{Plan: forage.Plan{Name: plan.Name, Workspace: plan.Workspace, Parts: plan.Parts}, Before: before}
	return writeJSON(s.endedFile(plan.Name), e)
}

// lookedAt are the workspaces of a sandbox, or of a run that has ended, and what was in them
// before.
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

// choose returns the findings that the options ask for.
func choose(found []Finding, before baselines, plan forage.Plan, options QuarantineOptions) ([]Finding, error) {
	if len(options.Paths) > 0 {
		return findingsAt(found, options.Paths)
	}
	return slices.DeleteFunc(found, func(h Finding) bool {
		_, known := before[cmp.Or(h.Part, plan.Workspace.Name)][h.Path]
		switch h.Kind {
		case autorun.KindRepository: // one that was there before is the user's: it is moved only when it is named with Paths
			return known
		case autorun.KindUnseen:
			return true
		}
		return !options.All && !h.Immediate
	}), nil
}

// findingsAt are the findings at or below those paths. A path without one is an error: it would be
// taken for safe.
func findingsAt(found []Finding, paths []string) ([]Finding, error) {
	var chosen []Finding
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

// quarantineKept is how long after the end of a run Quarantine still works for it.
const quarantineKept = 30 * 24 * time.Hour

// quarantines removes the notes that Quarantine has of runs that ended long ago. What it moved
// aside stays for good.
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
		errs = append(errs, c.do(name, "removed what quarantine would need", func() error { return os.RemoveAll(filepath.Join(dir, entry.Name())) }))
	}
	return errors.Join(errs...)
}
