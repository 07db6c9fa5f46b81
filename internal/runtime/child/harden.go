package child

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"

	"forage/internal/landlock"
	"forage/internal/seccomp"
)

// taskHeadroom is what the sandbox's first process may have beyond the agent's
// own limit, so that it can still start something to end what went wrong.
const taskHeadroom = 64

// defaultTasks is more than builds and test suites run at once, and less than a
// host of our time has process ids to give.
const defaultTasks = 8192

// harden gives up what the process no longer needs. Capabilities go last, in
// confinement's function, which needs one of them.
func (b *builder) harden() error {
	if err := b.limitProcess(); err != nil {
		return err
	}
	if !b.boot.OwnKernel {
		if err := shareQuotas(); err != nil {
			return err
		}
	}
	filter, err := take(b.background.filter)
	if err != nil {
		return err
	}
	if err := seccomp.Install(filter); err != nil { // and no_new_privs, on all threads
		return err
	}
	// Not dumpable: nothing inside may trace us or read our memory. A change of
	// credentials has cleared the death signal: prctl(2).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_DUMPABLE: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_PDEATHSIG: %w", err)
	}
	return nil
}

// limitProcess bounds core dumps and the number of processes.
func (b *builder) limitProcess() error {
	// No core dumps: with a limit of 1 the kernel starts no handler on the host either (core(5),
	// "Piping core dumps to a program"; a limit of 0 doesn't keep it from that). Who was given 0 can't
	// have 1: doctor says so.
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	most := min(1, now.Max)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		return fmt.Errorf("RLIMIT_NPROC: %w", err)
	}
	n := tasks(b.boot.TasksMax, now.Cur)
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return fmt.Errorf("RLIMIT_NPROC: %w", err)
	}
	return nil
}

// tasks is how many processes a sandbox may have. Those inside count for the caller too, whose own
// programs, `down` among them, stop at the caller's soft limit: a part of that is left. A template
// that says nothing has a bound too, so that a fork bomb ends at its own walls: the guest is within
// it, and the sandbox ends with the guest.
func tasks(tasksMax int64, soft uint64) uint64 {
	if tasksMax > 0 {
		return min(uint64(tasksMax)+taskHeadroom, soft-soft/4)
	}
	return min(defaultTasks, soft/4)
}

// shareQuotas leaves the host most of what the kernel counts for each user in all user namespaces
// together: queued signals, which each POSIX timer holds one of, the bytes of message queues, and
// locked memory, which each process may have as well. A user without signals left can't start a
// sandbox, or any Go program that signals its own threads.
func shareQuotas() error {
	for _, quota := range []struct {
		name  string
		which int
		most  uint64 // for a caller without a limit
	}{
		{"RLIMIT_SIGPENDING", unix.RLIMIT_SIGPENDING, unix.RLIM_INFINITY},
		{"RLIMIT_MSGQUEUE", unix.RLIMIT_MSGQUEUE, unix.RLIM_INFINITY},
		{"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK, 1 << 20},
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(quota.which, &now); err != nil {
			return fmt.Errorf("%s: %w", quota.name, err)
		}
		n := min(now.Max/quotaShare, quota.most)
		if err := unix.Setrlimit(quota.which, &unix.Rlimit{Cur: min(n, now.Cur), Max: n}); err != nil {
			return fmt.Errorf("%s: %w", quota.name, err)
		}
	}
	return nil
}

// quotaShare is the part of the caller's quotas that one sandbox gets.
const quotaShare = 8

// confinement returns Entered.Confine; bare is a process that has no capabilities any more. It
// closes over plain values: the builder is gone by then.
func (b *builder) confinement(bare bool) func() error {
	options := landlock.Options{NestedNamespaces: b.boot.Nesting}
	for _, a := range writableAreas(b.boot.Identity.Home) {
		// What Landlock allows below a folder, it allows below what is mounted there.
		if !slices.ContainsFunc(b.boot.Mounts, a.showsHost) {
			options.Sockets = append(options.Sockets, a.target)
		}
	}
	if len(b.boot.Lower) == 0 { // else all of "/" is writable
		options.Writable = []string{"/dev", "/proc"}
		for _, a := range writableAreas(b.boot.Identity.Home) {
			options.Writable = append(options.Writable, a.target)
		}
		for _, t := range b.boot.Mounts {
			if t.Writable || t.Layered {
				options.Writable = append(options.Writable, t.Target)
			}
		}
	}
	return func() error {
		if !bare {
			if err := dropBoundingSet(thread); err != nil {
				return &stepError{"dropping the capability bounding set", err}
			}
			if err := dropCapabilities(); err != nil {
				return &stepError{"dropping capabilities", err}
			}
		}
		if _, err := landlock.Confine(options); err != nil {
			return &stepError{"confining with Landlock", err}
		}
		return nil
	}
}

// thread and everyThread make a system call on the calling thread, and on each of the process.
var (
	thread      = unix.RawSyscall
	everyThread = psx.Syscall3
)

// dropBoundingSet empties the bounding set of those threads: capabilities(7).
func dropBoundingSet(of func(trap, a1, a2, a3 uintptr) (uintptr, uintptr, syscall.Errno)) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP+16; c++ {
		has, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, c, 0)
		if errno == unix.EINVAL && c > 0 {
			return nil // one more than this kernel knows
		}
		if has == 0 && errno == 0 {
			continue
		}
		if _, _, errno := of(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 {
			return fmt.Errorf("PR_CAPBSET_DROP %d: %w", c, errno)
		}
	}
	return nil
}

// dropCapabilities empties the capability sets of every thread of the process. The ambient set,
// being a part of the others, goes with them. psx, and not syscall.AllThreadsSyscall, since that
// refuses where cgo is linked, as `go run` does on a host with a C compiler.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}
