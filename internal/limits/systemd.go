package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"forage"

	"golang.org/x/sys/unix"
)

// Manager is a connection to a systemd manager, the system's or a user's:
// org.freedesktop.systemd1(5).
type Manager interface {
	// ControlGroup is the manager's own folder, relative to cgroup v2's mount.
	ControlGroup() (string, error)
	// StartScope makes a transient scope around a running process and returns its folder, relative
	// to cgroup v2's mount.
	StartScope(unit string, pid int, l forage.Limits) (controlGroup string, err error)
	// Stop kills all of a scope's processes and removes it. An absent one succeeds.
	Stop(unit string) error
	Close()
}

const scopeSuffix = ".scope"

// managerSocket is the bus of the manager that is responsible for the caller.
func managerSocket(env Environment) string {
	if env.UID == 0 {
		return "/run/dbus/system_bus_socket"
	}
	dir := env.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = "/run/user/" + strconv.Itoa(env.UID)
	}
	return filepath.Join(dir, "bus")
}

// systemd bounds sandboxes by transient scopes.
type systemd struct {
	env    Environment
	socket string // of the bus
	mount  string // of cgroup v2
}

func (s systemd) String() string { return "systemd at " + s.socket }

// Apply makes nothing yet: a scope can't be without a process.
func (s systemd) Apply(name string, l forage.Limits) (Group, error) {
	if err := forage.CheckName(name); err != nil {
		return nil, err
	}
	return &scope{systemd: s, unit: prefix + name + scopeSuffix, limits: l}, nil
}

// scope is a group that exists from its Add on, of which there is one.
type scope struct {
	systemd
	unit   string
	limits forage.Limits
}

func (g *scope) Ref() string   { return refSystemd + g.unit }
func (g *scope) Remove() error { return removeScope(g.env, g.unit) }

func (g *scope) Add(pid int) error {
	m, err := g.env.Manager(g.socket)
	if err != nil {
		return fmt.Errorf("asking systemd for a scope: %w", err)
	}
	defer m.Close()
	group, err := m.StartScope(g.unit, pid, g.limits)
	if err != nil {
		return fmt.Errorf("asking systemd for %s: %w", g.unit, err)
	}
	// A manager ignores what it does not know or has no controller for.
	if err := verify(g.env, filepath.Join(g.mount, group), pid, g.limits); err != nil {
		return errors.Join(forage.Errorf(forage.ErrUnsupported, "systemd did not bound %s: %w", g.unit, err), m.Stop(g.unit))
	}
	return nil
}

// verify reads back from a cgroup v2 folder that pid is in it and that l holds.
func verify(env Environment, dir string, pid int, l forage.Limits) error {
	if !slices.Contains(env.fields(dir+"/cgroup.procs"), strconv.Itoa(pid)) {
		return fmt.Errorf("process %d is not in %s", pid, dir)
	}
	if l.MemoryMax > 0 {
		got := env.fields(dir + "/memory.max")
		// The kernel rounds down to pages.
		limit, err := strconv.ParseInt(strings.Join(got, " "), 10, 64)
		if err != nil || limit > l.MemoryMax || limit <= l.MemoryMax-int64(os.Getpagesize()) {
			return fmt.Errorf("memory.max is %q", got)
		}
	}
	if l.CPUQuota > 0 {
		got := env.fields(dir + "/cpu.max")
		var quota, period int64
		if n, _ := fmt.Sscan(strings.Join(got, " "), &quota, &period); n != 2 || period <= 0 || quota*100/period != l.CPUQuota {
			return fmt.Errorf("cpu.max is %q", got)
		}
	}
	return nil
}

// removeScope stops a scope. Where the manager itself is gone, so are its scopes.
func removeScope(env Environment, unit string) error {
	name, ours := strings.CutPrefix(strings.TrimSuffix(unit, scopeSuffix), prefix)
	if !ours || forage.CheckName(name) != nil {
		return fmt.Errorf("removing a control group: %q is not ours", unit)
	}
	m, err := env.Manager(managerSocket(env))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking systemd to remove %s: %w", unit, err)
	}
	defer m.Close()
	if err := m.Stop(unit); err != nil {
		return fmt.Errorf("asking systemd to remove %s: %w", unit, err)
	}
	return nil
}

// ownPrefix begins the names of supervisors' scopes: not prefix, which marks
// the groups that gc removes.
const ownPrefix = "firefly-supervisor-"

// OwnScope puts the process pid, the supervisor of the sandbox called name, in a
// scope of the caller's systemd manager, so that it no longer belongs to the
// login session that it was started from. It says whether it did: false, with no
// error, where systemd is not the init or has no manager for the caller.
func OwnScope(env Environment, name string, pid int) (bool, error) {
	d := detection{env: env}
	if !d.booted() {
		return false, nil
	}
	m, err := env.Manager(managerSocket(env))
	if err != nil {
		return false, nil // no manager: a session of its own is all there is
	}
	defer m.Close()
	if _, err := m.StartScope(ownPrefix+name+scopeSuffix, pid, forage.Limits{}); err != nil {
		return false, fmt.Errorf("asking systemd for the supervisor's scope: %w", err)
	}
	return true, nil
}
