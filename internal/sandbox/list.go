package sandbox

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"forage"
	"forage/internal/deadline"
	"forage/internal/sandbox/work"
	"forage/internal/store"
	"forage/internal/supervisor"
)

// List returns every sandbox, by name. The user is told of each record that can't be read.
func (s *Service) List(ctx context.Context) ([]Status, error) {
	records, err := s.tellBroken()
	statuses, shown := make([]Status, len(records)), make([]work.Shown, len(records))
	var asked sync.WaitGroup
	for i, record := range records {
		asked.Go(func() {
			statuses[i] = s.status(ctx, record)
		})
		asked.Go(func() { shown[i] = s.Work.Shown(ctx, record) })
	}
	asked.Wait()
	for i := range statuses {
		statuses[i].Unsaved, statuses[i].Branch = shown[i].Unsaved, shown[i].Branch
	}
	slices.SortFunc(statuses, func(a, b Status) int {
		return strings.Compare(a.Name, b.Name)
	})
	return statuses, err
}

// Names are the sandboxes whose records can be read; the error names the others. No supervisor is
// asked.
func (s *Service) Names() ([]string, error) {
	records, err := s.Host.Readable()
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Name
	}
	slices.Sort(names)
	return names, err
}

// tellBroken are the records that can be read, after the user was told of each that can't.
func (s *Service) tellBroken() ([]store.Record, error) {
	records, broken, err := s.Host.Store.List()
	for _, record := range broken {
		s.Notify(record.Note())
	}
	return records, err
}

// Status returns one sandbox, and what has become of its work.
func (s *Service) Status(ctx context.Context, name string) (Status, error) {
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return Status{}, err
	}
	status := s.status(ctx, record)
	status.Refusals = s.Host.WithSets(ctx, record.Plan, status.Refusals)
	s.shown(name, status.Refusals)
	if status.Status != string(forage.PhaseCreating) && record.Phase != forage.PhaseRemoving { // that of a run is PhaseCreating to its end
		status.Work = s.Work.Of(ctx, deadline.End, record.Plan.Workspaces())
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
		case <-time.After(10 * time.Millisecond):
		}
		if now, err := s.Host.Store.Load(record.Name); err == nil {
			record = now
		}
	}
}

// statusNow says with ending that what record says is about to change.
func (s *Service) statusNow(ctx context.Context, record store.Record) (status Status, ending bool) {
	status = Status{Record: record, Status: string(record.Phase), Tmux: "none", ExitCode: record.ExitCode}
	if argv := record.Plan.Spec.Command; len(argv) > 0 {
		status.Agent = path.Base(argv[0])
	}
	if !s.Host.Alive(record.Name) {
		now, err := s.Host.Store.Load(record.Name)
		if record.Phase == forage.PhaseRunning && err == nil && now.Phase != forage.PhaseRunning {
			return status, true // it was written meanwhile
		}
		switch record.Phase {
		case forage.PhaseRunning:
			status.Status, status.Reason = string(forage.PhaseFailed), "its supervisor died"
		case forage.PhaseCreating:
			status.Reason = "if that was interrupted, `forage-ctl gc` removes what is left and keeps its work"
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
		status.Ports, status.Bytes, status.Pages = answer.Ports, answer.Bytes, answer.Pages
	case record.Phase == forage.PhaseRunning:
		return status, true
	default:
		status.Status = string(forage.PhaseCreating)
	}
	return status, false
}

// Traffic is what one sandbox asks of the network.
type Traffic struct {
	Sandbox string `json:"sandbox"`
	Running bool   `json:"running"`
	supervisor.Traffic
}

// Traffic returns what the sandboxes of those names ask of the network, or all that run where there
// are no names. One that doesn't run has what it used before. The error says which could not be
// asked; the others are there all the same.
func (s *Service) Traffic(ctx context.Context, names []string) ([]Traffic, error) {
	all := len(names) == 0
	var errs []error
	if all {
		var err error
		names, err = s.Names()
		errs = append(errs, err)
	}
	traffic := make([]Traffic, 0, len(names))
	for _, name := range names {
		one, err := s.trafficOf(ctx, name)
		if all && errors.Is(err, forage.ErrNotFound) {
			continue // it was removed meanwhile
		}
		errs = append(errs, err)
		if err == nil && (one.Running || !all) {
			traffic = append(traffic, one)
		}
	}
	return traffic, errors.Join(errs...)
}

func (s *Service) trafficOf(ctx context.Context, name string) (Traffic, error) {
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return Traffic{}, err
	}
	one := Traffic{Sandbox: name, Running: s.Host.Alive(name)}
	if one.Running {
		one.Traffic, err = s.client(name).Traffic(ctx)
		if !supervisor.Closed(err) {
			return one, err
		}
		one.Running = false // it is starting, or ending
	}
	one.Traffic, err = supervisor.TrafficBefore(s.Host.Places.Of(name).Usage, record.Plan.Traffic)
	return one, err
}

// CountFindings adds to each status how many findings there are, as far as that can be found out in
// time.
func (s *Service) CountFindings(ctx context.Context, statuses []Status) {
	ctx, cancel := context.WithTimeout(ctx, deadline.End)
	defer cancel()
	for i := range statuses {
		statuses[i].FindingCount = -1
	}
	var looks errgroup.Group
	looks.SetLimit(2) // more only slow each other down
	for i := range statuses {
		looks.Go(func() error {
			if found, err := s.Work.FindingsOf(ctx, statuses[i].Record); err == nil {
				statuses[i].FindingCount = len(found)
			}
			return nil
		})
	}
	_ = looks.Wait() // none fails
}
