package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call says where a system call that changes files names them.
type call struct {
	name     string
	fd, path int  // arguments; none is -1, and a path without fd is relative to the working folder
	flags    int  // argument, of those that change something only with O_CREAT or O_TRUNC
	always   bool // it has no such argument
}

func at(name string, fd, path int) call { return call{name: name, fd: fd, path: path, always: true} }

// calls are those that change files. What asks only for things to be written out changes nothing.
var calls = map[uint64]call{
	unix.SYS_OPENAT: {name: "openat", fd: 0, path: 1, flags: 2},

	unix.SYS_MKDIRAT: at("mkdirat", 0, 1), unix.SYS_MKNODAT: at("mknodat", 0, 1), unix.SYS_UNLINKAT: at("unlinkat", 0, 1),
	unix.SYS_SYMLINKAT: at("symlinkat", 1, 2), unix.SYS_LINKAT: at("linkat", 2, 3), unix.SYS_TRUNCATE: at("truncate", -1, 0),
	unix.SYS_RENAMEAT: at("renameat", 2, 3), unix.SYS_RENAMEAT2: at("renameat2", 2, 3),
	unix.SYS_FCHMODAT: at("fchmodat", 0, 1), unix.SYS_FCHOWNAT: at("fchownat", 0, 1), unix.SYS_UTIMENSAT: at("utimensat", 0, 1),
	unix.SYS_SETXATTR: at("setxattr", -1, 0), unix.SYS_LSETXATTR: at("lsetxattr", -1, 0), unix.SYS_MOUNT: at("mount", -1, 1), unix.SYS_UMOUNT2: at("umount2", -1, 0),

	unix.SYS_WRITE: at("write", 0, -1), unix.SYS_PWRITE64: at("pwrite64", 0, -1), unix.SYS_WRITEV: at("writev", 0, -1), unix.SYS_PWRITEV: at("pwritev", 0, -1),
	unix.SYS_SENDFILE: at("sendfile", 0, -1), unix.SYS_COPY_FILE_RANGE: at("copy_file_range", 2, -1), unix.SYS_FTRUNCATE: at("ftruncate", 0, -1),
	unix.SYS_FALLOCATE: at("fallocate", 0, -1), unix.SYS_FCHMOD: at("fchmod", 0, -1), unix.SYS_FCHOWN: at("fchown", 0, -1), unix.SYS_FSETXATTR: at("fsetxattr", 0, -1),
}

// entry is what PTRACE_GET_SYSCALL_INFO says of a call that is entered: ptrace(2).
type entry struct {
	op   uint8
	_    [3]uint8
	arch uint32
	_    [2]uint64 // instruction and stack
	nr   uint64
	args [6]uint64
}

// change describes the change of a file that a thread is about to make; "" is none, or one below quiet.
func change(pid int, quiet []string) string {
	var e entry
	const getSyscallInfo, entered = 0x420e, 1
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(pid), unsafe.Sizeof(e), uintptr(unsafe.Pointer(&e)), 0, 0)
	if errno != 0 || e.op != entered {
		return ""
	}
	c, ok := calls[e.nr]
	if !ok || !c.always && e.args[c.flags]&(unix.O_CREAT|unix.O_TRUNC) == 0 {
		return ""
	}
	path := subject(pid, c, e.args)
	if !strings.HasPrefix(path, "/") { // a pipe or a socket
		return ""
	}
	for _, dir := range append(quiet, "/dev", "/proc") {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return ""
		}
	}
	return c.name + " " + path
}

// subject is the file that a call is about, with links in its folder resolved. One that isn't known is "/?".
func subject(pid int, c call, args [6]uint64) string {
	proc := fmt.Sprintf("/proc/%d", pid)
	dir := proc + "/cwd"
	if c.fd >= 0 && int32(args[c.fd]) != unix.AT_FDCWD {
		dir = fmt.Sprintf("%s/fd/%d", proc, int32(args[c.fd]))
	}
	dir, _ = os.Readlink(dir)
	if c.path < 0 {
		return dir
	}
	path := text(pid, args[c.path])
	switch {
	case path == "":
		return "/?"
	case strings.HasPrefix(path, "/proc/self/"):
		path = proc + strings.TrimPrefix(path, "/proc/self")
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// text is a string in the memory of a process.
func text(pid int, address uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer memory.Close()
	bytes := make([]byte, unix.PathMax)
	n, _ := memory.ReadAt(bytes, int64(address)) // up to the end of what is mapped
	text, _, _ := strings.Cut(string(bytes[:n]), "\x00")
	return text
}
