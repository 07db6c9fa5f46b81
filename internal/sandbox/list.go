package sandbox

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/store"
	"forage/internal/supervisor"
)

// List returns every sandbox, by name. The user is told of each record that can't be read.
func (s *Service) List(ctx context.Context) ([]Status, error) {
	records, err := s.tellBroken()
	statuses, shown := make([]Status, len(records)), make([]shownWork, len(records))
	var asked sync.WaitGroup
	for i, record := range records {
		asked.Go(func() {
			statuses[i] = s.status(ctx, record)
		})
		asked.Go(func() { shown[i] = s.shownWork(ctx, record) })
	}
	asked.Wait()
	for i := range statuses {
		statuses[i].Unsaved, statuses[i].Branch = shown[i].unsaved, shown[i].branch
	}
	slices.SortFunc(statuses, func(a, b Status) int {
		return strings.Compare(a.Name, b.Name)
	})
	return statuses, err
}

// shownWork is what a list says of a workspace.
type shownWork struct {
	unsaved *bool  // nil: not known in time, or the folder is the user's own
	branch  string // that the commits are on; "" where it was not made yet
}

// shownWork brings commits to where the user looks for them, and says whether work is left that
// would be lost. Where commits can't be brought, status says why.
func (s *Service) shownWork(ctx context.Context, record store.Record) shownWork {
	ctx, looked := within(ctx, showPatience)
	defer looked()
	shown, known := shownWork{branch: record.GitBranch}, true
	made := record.Phase != forage.PhaseCreating && record.Phase != forage.PhaseRemoving
	before, now := map[string]seen{}, map[string]seen{}
	_ = readJSON(s.seenFile(record.Name), &before) // without it git is asked
	for i, w := range record.Plan.Workspaces() {
		provider, err := s.Workspaces.New(w.Mode)
		if err != nil {
			return shown
		}
		direct := w.Mode == forage.WorkspaceDirect
		if direct || w.ReadOnly || !made {
			update, err := provider.Update(ctx, w)
			if i == 0 && direct && err == nil && update.After == "" { // it is made for the first commit
				shown.branch = ""
			}
			continue
		}
		part, err := s.isUnsaved(ctx, provider, w, before[w.Name])
		now[w.Name] = part
		known = known && err == nil
		found := part.Unsaved || shown.unsaved != nil && *shown.unsaved
		shown.unsaved = &found
	}
	if !maps.Equal(before, now) {
		_ = writeWhole(s.seenFile(record.Name), now, false) // that it can't be kept only costs time
	}
	if !known {
		shown.unsaved = nil
	}
	return shown
}

// Names are the sandboxes whose records can be read; the error names the others. No supervisor is
// asked.
func (s *Service) Names() ([]string, error) {
	records, err := s.readable()
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Name
	}
	slices.Sort(names)
	return names, err
}

// tellBroken are the records that can be read, after the user was told of each that can't.
func (s *Service) tellBroken() ([]store.Record, error) {
	records, broken, err := s.Store.List()
	for _, record := range broken {
		s.notify(record.Note())
	}
	return records, err
}

// readable are the records that can be read; the error names the others.
func (s *Service) readable() ([]store.Record, error) {
	records, broken, err := s.Store.List()
	errs := []error{err}
	for _, record := range broken {
		errs = append(errs, record)
	}
	return records, errors.Join(errs...)
}

// Status returns one sandbox, and what has become of its work.
func (s *Service) Status(ctx context.Context, name string) (Status, error) {
	record, err := s.Store.Load(name)
	if err != nil {
		return Status{}, err
	}
	status := s.status(ctx, record)
	status.Refusals = s.withSets(ctx, record.Plan, status.Refusals)
	s.shown(name, status.Refusals)
	if status.Status != string(forage.PhaseCreating) && record.Phase != forage.PhaseRemoving { // that of a run is PhaseCreating to its end
		status.Work = s.work(ctx, showPatience, record.Plan.Workspaces())
	}
	return status, nil
}

// status asks the supervisor, if one is alive; a record alone is not believed. One whose sandbox
// has just ended is about to write down why, and is waited for.
func (s *Service) status(ctx context.Context, record store.Record) Status {
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the supervisor")
	defer cancel()
	for {
		status, ending := s.statusNow(ctx, record)
		if !ending {
			return status
		}
		if ctx.Err() != nil {
			status.Status, status.Reason = string(forage.PhaseFailed), "its supervisor neither answers nor ends"
			return status
		}
		select {
		case <-ctx.Done():
		case <-time.After(startLook):
		}
		if now, err := s.Store.Load(record.Name); err == nil {
			record = now
		}
	}
}

// statusNow says with ending that what record says is about to change.
func (s *Service) statusNow(ctx context.Context, record store.Record) (status Status, ending bool) {
	status = Status{Record: record, Status: string(record.Phase), Tmux: "none"}
	if argv := record.Plan.Spec.Command; len(argv) > 0 {
		status.Agent = path.Base(argv[0])
	}
	if !s.alive(record.Name) {
		now, err := s.Store.Load(record.Name)
		if record.Phase == forage.PhaseRunning && err == nil && now.Phase != forage.PhaseRunning {
			return status, true // it was written meanwhile
		}
		switch record.Phase {
		case forage.PhaseRunning:
			status.Status, status.Reason = string(forage.PhaseFailed), "its supervisor died"
		case forage.PhaseRemoving:
			status.Status, status.Reason = string(forage.PhaseStopped), "it is being removed; if that was interrupted, `forage-ctl down "+record.Name+"` finishes it"
		}
		return status, false
	}
	answer, err := s.client(record.Name).Status(ctx)
	switch {
	case err != nil && !supervisor.Closed(err) && record.Phase != forage.PhaseCreating:
		status.Status, status.Reason = string(forage.PhaseFailed), err.Error()
	case answer.Ready:
		status.Status, status.Tmux, status.GuestPID = string(forage.PhaseRunning), answer.Tmux, answer.GuestPID
		status.AgentState, status.ExitCode = answer.Agent, answer.ExitCode
		status.Refusals = answer.Refused
		status.Refused = len(status.Refusals)
	case record.Phase == forage.PhaseRunning:
		return status, true
	default:
		status.Status = string(forage.PhaseCreating)
	}
	return status, false
}
