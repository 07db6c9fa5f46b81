// Package limits enforces a sandbox's memoryMax and cpuQuota with control groups:
// under cgroup v2 through the systemd manager or in a hierarchy that was
// delegated to the caller, under cgroup v1 as root. What can't be enforced is refused,
// with the reason and the fix.
//
// The other limits are not its business: tasksMax is RLIMIT_NPROC, diskMax the size
// of a tmpfs, wallClock a timer.
//
// Use: Find says whether and with what; Enforcer.Apply makes the group, Group.Add puts the
// sandbox's first process in before it starts anything. The holder keeps Group.Ref. A later
// clean-up calls Remove with it, or List to find groups without a record. Where no such limit is
// asked for, nothing is read, opened or made.
package limits

import (
	"fmt"
	"os"
	"strings"

	"forage"
)

// Enforcer is one way in which this host can bound a sandbox.
type Enforcer interface {
	// Apply makes the group of the sandbox called name. A group of that name
	// in which nothing runs any more is replaced; one in use is an error.
	Apply(name string, l forage.Limits) (Group, error)
	// String says what it is, for doctor: "cgroup v2 below /sys/fs/cgroup/x".
	String() string
}

// Group bounds the processes in it, together.
type Group interface {
	// Add moves a process into the group; what it starts later is in it too. The
	// limits hold when Add has returned nil.
	Add(pid int) error
	// Dir is the group's folder, opened, for CLONE_INTO_CGROUP (clone(2)): a
	// process is then born in it. Nil where that is not possible and Add is the way. It belongs to
	// the group.
	Dir() *os.File
	// Ref names the group for Remove: stable, without secrets, of this host and boot.
	Ref() string
	// Remove kills what runs in the group and removes it. It is idempotent.
	Remove() error
}

// Wanted reports whether l asks for anything that this package enforces.
func Wanted(l forage.Limits) bool { return l.MemoryMax > 0 || l.CPUQuota > 0 }

// Find returns what will enforce l on this host. It is nil, with no error, if
// nothing is Wanted; an error is of kind ErrUnsupported and has a hint.
func Find(l forage.Limits) (Enforcer, error) {
	if !Wanted(l) {
		return nil, nil
	}
	enforcer, _, err := Detect(Host(), l)
	return enforcer, err
}

// wanted is which controllers are needed.
type wanted struct{ memory, cpu bool }

func wantedBy(l forage.Limits) wanted { return wanted{l.MemoryMax > 0, l.CPUQuota > 0} }

// controllers are their names in the kernel.
func (w wanted) controllers() []string {
	var list []string
	if w.memory {
		list = append(list, "memory")
	}
	if w.cpu {
		list = append(list, "cpu")
	}
	return list
}

// String names the limits as templates do.
func (w wanted) String() string {
	var list []string
	if w.memory {
		list = append(list, "memoryMax")
	}
	if w.cpu {
		list = append(list, "cpuQuota")
	}
	return strings.Join(list, " and ")
}

// missing are those of w that available lacks.
func (w wanted) missing(available []string) wanted {
	for _, c := range available {
		switch c {
		case "memory":
			w.memory = false
		case "cpu":
			w.cpu = false
		}
	}
	return w
}

// prefix begins the name of every group that is ours.
const prefix = "forage-"

// The kinds of group, as a Ref begins.
const (
	refFolder  = "cgroup:"  // folders of cgroup v1 or v2, separated by ":"
	refSystemd = "systemd:" // a scope of the manager that the caller talks to
)

// Remove removes the group that a Group's Ref names. An absent one, and "", succeed.
func Remove(ref string) error {
	switch {
	case ref == "":
		return nil
	case strings.HasPrefix(ref, refFolder):
		return removeFolders(strings.Split(strings.TrimPrefix(ref, refFolder), ":"))
	case strings.HasPrefix(ref, refSystemd):
		return removeScope(Host(), strings.TrimPrefix(ref, refSystemd))
	}
	return fmt.Errorf("removing a control group: %q names none", ref)
}
