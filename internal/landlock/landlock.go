// Package landlock puts the agent's processes into a Landlock domain
// (landlock(7)): they can't signal what is outside it, our PID 1 above all, and can't
// make sockets, FIFOs or devices in folders that the host sees too. It is a second
// wall: nothing relies on it alone, and where a kernel has less of it, Active says so.
//
// Use: PID 1 calls Confine on the locked OS thread that starts everything of the agent's. The
// domain is inherited by what that thread forks, and not shared with PID 1's other threads. That
// thread must not be the process's first: signals to a process are judged by its first thread's
// domain, and the agent could signal PID 1 after all. (A main function that calls
// runtime.LockOSThread before anything else, and never unlocks, keeps every other goroutine off
// it.) Available says what Confine would reach, for doctor.
package landlock

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options say how to confine. The zero value allows sockets and FIFOs nowhere.
type Options struct {
	// Sockets are the folders below which sockets and FIFOs may be made and
	// connected to: private to the sandbox, and on other mounts than any
	// host tree, since a folder that holds a FIFO may be moved within a
	// mount. One that does not exist is left out.
	Sockets []string
	// Writable, if there are any, are the files and folders outside of which nothing is opened for
	// writing: a mount that is read-only does not keep anybody from writing to a FIFO in it.
	Writable []string
	// NestedNamespaces leaves the file rules out: a domain with file rules
	// can't mount anything.
	NestedNamespaces bool
}

// Active says what holds inside. The zero value is nothing.
type Active struct {
	ABI int `json:"abi"` // the kernel's Landlock ABI version, 0 without Landlock
	// Signals: no signal leaves the domain.
	Signals bool `json:"signals"`
	// AbstractSockets: no connection to an abstract unix socket made outside the domain.
	AbstractSockets bool `json:"abstractSockets"`
	// Files: sockets and FIFOs only below Options.Sockets, devices nowhere.
	Files bool `json:"files"`
	// Connect: connections to unix sockets by path only below
	// Options.Sockets or to the domain's own.
	Connect bool `json:"connect"`
	// Notes say what does not hold, and why.
	Notes []string `json:"notes,omitempty"`
}

// Versions of the ABI that brought what is used here.
const (
	abiRefer   = 2 // without it a domain with file rules can't rename between folders
	abiScopes  = 6
	abiConnect = 9
)

// erratumSignals is the fix that lets threads of one process signal each other
// across domains, which the Go runtime does to preempt.
const erratumSignals = 1 << 1

// files are the rights that the file rules handle. REFER is among them since it
// is otherwise refused: renames and links between folders would fail.
const files = unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
	unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_REFER

// Available reports what Confine reaches on this kernel, without doing it.
func Available(o Options) Active {
	active, _ := plan(o, version(0), version(unix.LANDLOCK_CREATE_RULESET_ERRATA))
	return active
}

// Confine puts the calling OS thread, which must be locked to its goroutine
// and must never be unlocked again, into a domain. On the process's first thread
// it fails. no_new_privs is set on it first.
// What the kernel lacks is no error but in Active; an error means that
// nothing of Active can be relied on.
func Confine(o Options) (Active, error) {
	if unix.Gettid() == unix.Getpid() {
		return Active{}, errors.New("entering a Landlock domain: this is the process's first thread, which stands for all of it")
	}
	active, attr := plan(o, version(0), version(unix.LANDLOCK_CREATE_RULESET_ERRATA))
	if attr.Handled_access_fs == 0 && attr.Scoped == 0 {
		return active, nil
	}
	ruleset, err := create(attr)
	if err != nil {
		return Active{ABI: active.ABI}, fmt.Errorf("making a Landlock ruleset: %w", err)
	}
	defer unix.Close(ruleset)
	if err := addRules(ruleset, attr.Handled_access_fs, o); err != nil {
		return Active{ABI: active.ABI}, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return Active{ABI: active.ABI}, fmt.Errorf("setting no_new_privs: %w", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return Active{ABI: active.ABI}, fmt.Errorf("entering a Landlock domain: %w", errno)
	}
	return active, nil
}

// version asks for the ABI's version (which is 0) or its errata; 0 without Landlock.
func version(which uintptr) int {
	if which == 0 {
		which = unix.LANDLOCK_CREATE_RULESET_VERSION
	}
	r, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, which)
	if errno != 0 {
		return 0
	}
	return int(r)
}

// plan decides what to ask for from an ABI version and its errata.
func plan(o Options, abi, errata int) (Active, unix.LandlockRulesetAttr) {
	active := Active{ABI: abi}
	var attr unix.LandlockRulesetAttr
	note := func(text string) { active.Notes = append(active.Notes, text) }
	if abi == 0 {
		note("the kernel has no Landlock, or it is not among the lsm= that it was started with")
		return active, attr
	}
	switch {
	case abi < abiScopes:
		note(fmt.Sprintf("signals and abstract sockets are not scoped: Landlock ABI %d, 6 (Linux 6.12) is needed", abi))
	case errata&erratumSignals == 0:
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		note("signals are not scoped: this kernel lacks the fix for signals between threads")
	default:
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	switch {
	case o.NestedNamespaces:
		note("no file rules, since they would forbid mounting in nested namespaces")
	case abi < abiRefer:
		note(fmt.Sprintf("no file rules: Landlock ABI %d would forbid renames between folders, 2 (Linux 5.19) is needed", abi))
	default:
		attr.Handled_access_fs = files
		if len(o.Writable) > 0 {
			attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE
		}
		if abi >= abiConnect {
			attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
		}
	}
	active.Signals = attr.Scoped&unix.LANDLOCK_SCOPE_SIGNAL != 0
	active.AbstractSockets = attr.Scoped&unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET != 0
	active.Files = attr.Handled_access_fs != 0
	active.Connect = attr.Handled_access_fs&unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX != 0
	return active, attr
}

// create makes a ruleset. Fields that an older kernel does not know are zero, and
// a longer attribute whose rest is zero is accepted.
func create(attr unix.LandlockRulesetAttr) (int, error) {
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	r, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil // close-on-exec
}

// addRules gives back what handled takes away, where it is wanted.
func addRules(ruleset int, handled uint64, o Options) error {
	if handled == 0 {
		return nil
	}
	if err := allow(ruleset, "/", unix.LANDLOCK_ACCESS_FS_REFER); err != nil {
		return err
	}
	const inSockets = unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	for access, places := range map[uint64][]string{inSockets: o.Sockets, unix.LANDLOCK_ACCESS_FS_WRITE_FILE: o.Writable} {
		for _, place := range places {
			if err := allow(ruleset, place, handled&access); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// allow gives access to a file or beneath a folder, which is not followed if it is a link.
func allow(ruleset int, place string, access uint64) error {
	fd, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("opening %s for Landlock: %w", place, err)
	}
	defer unix.Close(fd)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("adding a Landlock rule for %s: %w", place, errno)
	}
	return nil
}
