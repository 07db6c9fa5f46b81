package child

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"forage/internal/nofile"
)

// Package syscall copies the address space for a child in a user namespace of its own, and every
// page that we write meanwhile is copied too. That takes longer than the rest of a start. Here the
// child borrows our memory until it executes the guest, as syscall itself does without a user
// namespace; what it does is the same too (forkAndExecInChild1).

//go:noescape
func rawVfork(flags, pidfd uintptr) (pid, errno uintptr)

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// vforked is what the child needs, made before there is one: it must not allocate.
type vforked struct {
	flags      uintptr
	path       *byte
	argv, envv []*byte
	ambient    []uintptr
	files      []uintptr
	nofile     nofile.Limit
	header     unix.CapUserHeader
	caps       [2]unix.CapUserData
	pidfd      int32
	failed     syscall.Errno // the child's; both have this memory
}

// vfork starts c as syscall.StartProcess would, with attributes that Clone gives an ordinary user.
func vfork(c Command, files []uintptr) (pid, pidfd int, err error) {
	v := &vforked{flags: c.Attr.Cloneflags, ambient: c.Attr.AmbientCaps, files: files, nofile: nofile.Inherited()}
	v.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	if v.path, err = syscall.BytePtrFromString(c.Path); err != nil {
		return 0, -1, err
	}
	if v.argv, err = syscall.SlicePtrFromStrings(c.Argv); err != nil {
		return 0, -1, err
	}
	if v.envv, err = syscall.SlicePtrFromStrings(guestEnv); err != nil {
		return 0, -1, err
	}
	syscall.ForkLock.Lock()
	child, errno := v.start()
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, -1, os.NewSyscallError("clone", syscall.Errno(errno))
	}
	if v.failed != 0 {
		_, _ = unix.Wait4(int(child), nil, 0, nil)
		unix.Close(int(v.pidfd))
		return 0, -1, v.failed
	}
	return int(child), int(v.pidfd), nil
}

// aboveFiles is a descriptor beyond those of a guest.
const aboveFiles = 16

// start returns, in the parent, when the child has executed its program or ended.
//
//go:noinline
//go:norace
//go:nocheckptr
func (v *vforked) start() (pid, errno uintptr) {
	flags := v.flags | unix.CLONE_PIDFD | unix.CLONE_VM | unix.CLONE_VFORK | uintptr(unix.SIGCHLD)
	beforeFork()
	pid, errno = rawVfork(flags, uintptr(unsafe.Pointer(&v.pidfd)))
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	// From here on the child runs, on its parent's stack.
	afterForkInChild()
	v.failed = v.become()
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// become makes the child the guest. It returns only what hindered that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (v *vforked) become() (e syscall.Errno) {
	if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0); e != 0 {
		return e
	}
	header, caps := uintptr(unsafe.Pointer(&v.header)), uintptr(unsafe.Pointer(&v.caps[0]))
	if _, _, e = syscall.RawSyscall(unix.SYS_CAPGET, header, caps, 0); e != 0 {
		return e
	}
	for _, c := range v.ambient {
		v.caps[c>>5].Permitted |= 1 << (c & 31)
		v.caps[c>>5].Inheritable |= 1 << (c & 31)
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_CAPSET, header, caps, 0); e != 0 {
		return e
	}
	for _, c := range v.ambient {
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0, 0); e != 0 {
			return e
		}
	}
	// First out of the way of each other, then to their places.
	for i, file := range v.files {
		if v.files[i], _, e = syscall.RawSyscall(unix.SYS_FCNTL, file, unix.F_DUPFD_CLOEXEC, aboveFiles); e != 0 {
			return e
		}
	}
	for i, file := range v.files {
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, file, uintptr(i), 0); e != 0 {
			return e
		}
	}
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&v.nofile)), 0, 0, 0); e != 0 {
		return e
	}
	_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(v.path)), uintptr(unsafe.Pointer(&v.argv[0])), uintptr(unsafe.Pointer(&v.envv[0])))
	return e
}
