package limits

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Environment is what detection looks at.
type Environment struct {
	UID      int
	Getenv   func(string) string
	ReadFile func(path string) ([]byte, error)
	Writable func(path string) bool // whether the caller may write there, access(2)
	// Delegated reports whether systemd has left the folder to its owner.
	Delegated func(dir string) bool
	// Manager connects to the systemd manager behind a D-Bus socket.
	Manager func(socket string) (Manager, error)
}

// Host is this host's own environment.
func Host() Environment {
	return Environment{
		UID:      os.Geteuid(),
		Getenv:   os.Getenv,
		ReadFile: os.ReadFile,
		Writable: func(path string) bool { return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil },
		Delegated: func(dir string) bool {
			// Set since systemd 251: docs/CGROUP_DELEGATION.md.
			value := make([]byte, 2)
			n, err := unix.Getxattr(dir, "user.delegate", value)
			return err == nil && string(value[:n]) == "1"
		},
		Manager: dialManager,
	}
}

// hierarchy is one mounted cgroup file system.
type hierarchy struct {
	controllers []string // v1; empty for v2, whose folders say what they have
	unified     bool
	mount       string // where it is mounted
	own         string // the caller's own folder in it
}

// fields reads a file as words; a file that can't be read has none.
func (e Environment) fields(path string) []string {
	b, err := e.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// hierarchies finds what is mounted (proc_pid_mountinfo(5)) and where in it the
// caller is (/proc/self/cgroup, cgroups(7)).
func (e Environment) hierarchies() ([]hierarchy, error) {
	mountinfo, err := e.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	cgroup, err := e.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var list []hierarchy
	for line := range bytes.Lines(mountinfo) {
		h, root, ok := parseMount(string(line))
		if !ok {
			continue
		}
		h.own = ownFolder(h, root, string(cgroup))
		list = append(list, h)
	}
	return list, nil
}

// parseMount reads a line of mountinfo, if it is of a cgroup file system: its
// mount and controllers, and which folder of it is mounted. Their paths have no spaces.
func parseMount(line string) (h hierarchy, root string, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !found || len(left) < 6 || len(right) < 3 {
		return h, "", false
	}
	h.mount, root = left[4], left[3]
	switch right[0] {
	case "cgroup2":
		h.unified = true
	case "cgroup":
		for option := range strings.SplitSeq(right[2], ",") {
			if option == "memory" || option == "cpu" {
				h.controllers = append(h.controllers, option)
			}
		}
	default:
		return h, "", false
	}
	return h, root, true
}

// ownFolder is the caller's folder in h, of which root is mounted. If the
// caller is not below what is mounted, it is the mount itself.
func ownFolder(h hierarchy, root, cgroup string) string {
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		names := strings.Split(parts[1], ",")
		mine := h.unified && parts[0] == "0"
		if !h.unified && len(h.controllers) > 0 {
			mine = slices.Contains(names, h.controllers[0])
		}
		if !mine {
			continue
		}
		// A path through ".." is outside the caller's cgroup namespace.
		below, err := filepath.Rel(root, parts[2])
		if err != nil || strings.HasPrefix(parts[2], "/..") || strings.HasPrefix(below, "..") {
			return h.mount
		}
		return filepath.Join(h.mount, below)
	}
	return h.mount
}

// ancestors are dir and its parents up to and including mount, deepest first.
func ancestors(dir, mount string) []string {
	var list []string
	for {
		list = append(list, dir)
		if dir == mount || len(dir) <= len(mount) {
			return list
		}
		dir = filepath.Dir(dir)
	}
}
