package sandbox

import (
	"context"
	"errors"

	"forage"
	"forage/internal/supervisor"
)

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
	record, err := s.Store.Load(name)
	if err != nil {
		return Traffic{}, err
	}
	one := Traffic{Sandbox: name, Running: s.alive(name)}
	if one.Running {
		one.Traffic, err = s.client(name).Traffic(ctx)
		if !supervisor.Closed(err) {
			return one, err
		}
		one.Running = false // it is starting, or ending
	}
	one.Traffic, err = supervisor.TrafficBefore(s.Places.Of(name).Usage, record.Plan.Traffic)
	return one, err
}
