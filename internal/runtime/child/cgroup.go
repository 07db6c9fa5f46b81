package child

import (
	"forage"
	"forage/internal/limits"
)

// unbound is the control group of a sandbox that has no limit which asks for one.
type unbound struct{}

func (unbound) Add(int) error { return nil }
func (unbound) Ref() string   { return "" }
func (unbound) Remove() error { return nil }

// newCgroup makes the group that spec's limits take.
func newCgroup(spec forage.Spec) (limits.Group, error) {
	enforcer, err := limits.Find(spec.Limits)
	if enforcer == nil || err != nil {
		return unbound{}, err
	}
	return enforcer.Apply(spec.Name, spec.Limits)
}
