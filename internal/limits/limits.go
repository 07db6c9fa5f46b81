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
// clean-up calls Remove with it. Where no such limit is asked for, nothing is read, opened or made.
package limits

import (
	"fmt"
	"slices"
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

// wanted are the controllers that l needs, as the kernel calls them.
func wanted(l forage.Limits) []string {
	var list []string
	if l.MemoryMax > 0 {
		list = append(list, "memory")
	}
	if l.CPUQuota > 0 {
		list = append(list, "cpu")
	}
	return list
}

// missing are those of want that available lacks, as templates name the limits; "" is none.
func missing(want, available []string) string {
	var list []string
	for _, c := range want {
		if !slices.Contains(available, c) {
			list = append(list, map[string]string{"memory": "memoryMax", "cpu": "cpuQuota"}[c])
		}
	}
	return strings.Join(list, " and ")
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
