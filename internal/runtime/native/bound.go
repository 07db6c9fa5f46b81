package native

import (
	"os"

	"forage"
	"forage/internal/limits"
)

// bound is the control group of a sandbox; nil is none, where no limit asks for one.
type bound struct{ group limits.Group }

// newBound makes the group that spec's limits take.
func newBound(spec forage.Spec) (*bound, error) {
	enforcer, err := limits.Find(spec.Limits)
	if enforcer == nil || err != nil {
		return nil, err
	}
	group, err := enforcer.Apply(spec.Name, spec.Limits)
	if err != nil {
		return nil, err
	}
	return &bound{group}, nil
}

// dir is the group's folder, to be born in; nil where that is not the way in.
func (b *bound) dir() *os.File {
	if b == nil {
		return nil
	}
	return b.group.Dir()
}

// add puts a process into the group that was not born there.
func (b *bound) add(pid int) error {
	if b == nil || b.group.Dir() != nil {
		return nil
	}
	return b.group.Add(pid)
}

// ref names the group for Destroy.
func (b *bound) ref() string {
	if b == nil {
		return ""
	}
	return b.group.Ref()
}

// remove takes the group away, and whatever runs in it.
func (b *bound) remove() error {
	if b == nil {
		return nil
	}
	return b.group.Remove()
}
