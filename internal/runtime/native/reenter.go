package native

import (
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"forage/internal/mount"
)

// namespaceFiles are a sandbox's namespaces in which mounts are made, held open.
type namespaceFiles struct{ user, mnt *os.File }

// openNamespaces opens those of a guest that has not yet begun to build.
func openNamespaces(guest *process) (*namespaceFiles, error) {
	dir := "/proc/" + strconv.Itoa(guest.pid) + "/ns/"
	user, err := os.Open(dir + "user")
	if err != nil {
		return nil, err
	}
	mnt, err := os.Open(dir + "mnt")
	if err != nil {
		user.Close()
		return nil, err
	}
	n := &namespaceFiles{user, mnt}
	if !guest.exists() { // the number may have been another's by now
		n.close()
		return nil, unix.ESRCH
	}
	return n, nil
}

func (n *namespaceFiles) close() {
	if n != nil {
		n.user.Close()
		n.mnt.Close()
	}
}

// overItself mounts what is at target inside over itself. It does so in a process of its own, a copy of this one with
// a single thread, as setns(2) asks for where a user namespace is entered; a Go program always has several.
func (n *namespaceFiles) overItself(target string, attrs uint64) error {
	dir, last := path.Split(target)
	parent, err := unix.BytePtrFromString(dir)
	if err != nil {
		return err
	}
	name, err := unix.BytePtrFromString(last)
	if err != nil {
		return err
	}
	r := &reentry{
		user: n.user.Fd(), mnt: n.mnt.Fd(), parent: parent, name: name, empty: new(byte),
		how:  unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS},
		attr: unix.MountAttr{Attr_set: attrs | mount.Inert},
	}
	syscall.ForkLock.Lock()
	pid, errno := r.fork()
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return fmt.Errorf("clone: %w", errno)
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(int(pid), &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("wait4: %w", err)
	case !status.Exited():
		return fmt.Errorf("mounting %s again ended with %v", target, status)
	case status.ExitStatus() != 0:
		return syscall.Errno(status.ExitStatus())
	}
	return nil
}

// reentry is all that the new process needs, made before there is one: it can't allocate.
type reentry struct {
	user, mnt           uintptr
	parent, name, empty *byte
	how                 unix.OpenHow
	attr                unix.MountAttr
}

// fork makes the process, which ends with an errno as its status. After the fork there is nothing but system calls in it, as
// in the standard library's syscall.forkAndExecInChild, whose way this is.
//
//go:noinline
//go:norace
//go:nocheckptr
func (r *reentry) fork() (pid uintptr, errno syscall.Errno) {
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	afterForkInChild()
	var dir, at, tree uintptr
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, r.user, unix.CLONE_NEWUSER, 0); errno != 0 {
		goto end
	}
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, r.mnt, unix.CLONE_NEWNS, 0); errno != 0 {
		goto end
	}
	dir, _, errno = syscall.RawSyscall6(unix.SYS_OPENAT2, atCWD, uintptr(unsafe.Pointer(r.parent)), uintptr(unsafe.Pointer(&r.how)), unsafe.Sizeof(r.how), 0, 0)
	if errno != 0 {
		goto end
	}
	at, _, errno = syscall.RawSyscall6(unix.SYS_OPENAT, dir, uintptr(unsafe.Pointer(r.name)), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		goto end
	}
	tree, _, errno = syscall.RawSyscall(unix.SYS_OPEN_TREE, at, uintptr(unsafe.Pointer(r.empty)), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if errno != 0 {
		goto end
	}
	_, _, errno = syscall.RawSyscall6(unix.SYS_MOUNT_SETATTR, tree, uintptr(unsafe.Pointer(r.empty)), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, uintptr(unsafe.Pointer(&r.attr)), unsafe.Sizeof(r.attr), 0)
	if errno != 0 {
		goto end
	}
	_, _, errno = syscall.RawSyscall6(unix.SYS_MOVE_MOUNT, tree, uintptr(unsafe.Pointer(r.empty)), at, uintptr(unsafe.Pointer(r.empty)), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH, 0)
end:
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
}

// atCWD is AT_FDCWD as a system call takes it.
const atCWD = ^uintptr(99)

// The runtime's own preparations for a fork, which it lets others use by these names.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

func nativeUint32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
