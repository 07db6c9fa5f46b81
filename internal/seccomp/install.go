package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Install sets no_new_privs and puts the filter on every thread of this
// process, those to come included. It can't be taken back. On an error nothing
// but no_new_privs has changed.
func Install(filter []unix.SockFilter) error {
	if len(filter) == 0 || len(filter) > maxInstructions {
		return fmt.Errorf("installing the seccomp filter: %d instructions", len(filter))
	}
	runtime.LockOSThread() // the filter wants no_new_privs on the thread that installs it
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// TSYNC carries both to all other threads, and reports one that can't follow.
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return fmt.Errorf("installing the seccomp filter: %w", errors.Join(errno, errors.New("the kernel lacks CONFIG_SECCOMP_FILTER")))
	case errno != 0:
		return fmt.Errorf("installing the seccomp filter: %w", errno)
	case thread != 0:
		return fmt.Errorf("installing the seccomp filter: thread %d has a filter of its own", thread)
	}
	return nil
}
