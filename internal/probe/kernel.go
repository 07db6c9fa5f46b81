package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelWalls are system calls that reach further than a sandbox should.
func kernelWalls(opts Options) []wall {
	walls := []wall{
		{"kernel", "mounting", func(context.Context) error {
			return unix.Mount("none", "/tmp", "tmpfs", 0, "")
		}},
		{"kernel", "unmounting", func(context.Context) error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"kernel", "new mount API", func(context.Context) error {
			fd, err := unix.Fsopen("tmpfs", 0)
			var errno unix.Errno
			errors.As(err, &errno)
			return refused(fd, errno)
		}},
		call("kernel keyring", unix.SYS_KEYCTL, 0, ^uintptr(2), 0), // KEYCTL_GET_KEYRING_ID of the session
		call("bpf", unix.SYS_BPF, 0, 0, 0),
		call("perf events", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0),
		call("io_uring", unix.SYS_IO_URING_SETUP, 1, 0, 0),
		call("userfaultfd", unix.SYS_USERFAULTFD, 0, 0, 0),
		call("loading modules", unix.SYS_INIT_MODULE, 0, 0, 0),
		call("kexec", unix.SYS_KEXEC_LOAD, 0, 0, 0),
		call("handles to files", unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), 0, 0),
		call("setting the clock", unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, 0, 0),
		socket("vsock to the hypervisor", unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		socket("vsock behind high argument bits", 0xdead<<32|unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		socket("packet sockets", unix.AF_PACKET, unix.SOCK_RAW, 0),
		socket("raw sockets", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		socket("kernel crypto sockets", unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		socket("netlink beyond routes", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		{"kernel", "growing pipes", growPipe},
		{"kernel", "pushing input into a terminal", pushInput},
		writing("kernel", "/proc/sys/kernel/core_pattern"),
		writing("kernel", "/proc/sys/net/ipv4/ip_forward"),
		writing("kernel", "/proc/sysrq-trigger"),
		reading("kernel", "/proc/kcore"),
		reading("kernel", "/proc/keys"),
	}
	if !opts.NestedNamespaces { // else its /proc is whole
		walls = append(walls,
			reading("kernel", "/proc/kallsyms"),
			reading("kernel", "/proc/cmdline"),
			call("making a user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0),
			call("making a user namespace by clone3", unix.SYS_CLONE3, 0, 0, 0))
	}
	return walls
}

// call is a raw system call that must be refused by the filter or for want of
// privilege, not for its arguments.
func call(name string, number, a, b, c uintptr) wall {
	return wall{"kernel", name, func(context.Context) error {
		r, _, errno := unix.Syscall(number, a, b, c)
		return refused(int(r), errno)
	}}
}

func socket(name string, family, kind, protocol uintptr) wall {
	return wall{"kernel", name, func(context.Context) error {
		fd, _, errno := unix.Syscall(unix.SYS_SOCKET, family, kind, protocol)
		return refused(int(fd), errno)
	}}
}

// refused is an error only for the answers of a wall. EINVAL, EFAULT and the
// like mean that the kernel looked at the arguments: the call got through.
func refused(fd int, errno unix.Errno) error {
	switch errno {
	case unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT:
		return errno
	case 0:
		if fd > 2 {
			unix.Close(fd)
		}
	}
	return nil
}

// growPipe asks for a pipe larger than the default: pipe memory is counted per
// user of the host, so that growing it starves others.
func growPipe(context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	return err
}

// pushInput tries TIOCSTI, also with bits that a 32-bit request number hides.
func pushInput(context.Context) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer master.Close()
	char := byte('x')
	for _, request := range []uintptr{unix.TIOCSTI, 0xdead<<32 | unix.TIOCSTI} {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(&char)))
		if errno != unix.EPERM {
			return nil
		}
	}
	return unix.EPERM
}

// writing is a file that must not open for writing.
func writing(group, path string) wall {
	return wall{group, "writing " + path, func(context.Context) error {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return errors.Unwrap(err)
		}
		defer file.Close()
		if _, err := file.WriteString("1"); err != nil {
			return fmt.Errorf("opened, but not written: %w", err)
		}
		return nil
	}}
}

// reading is a file that must not be there, or hold nothing.
func reading(group, path string) wall {
	return wall{group, "reading " + path, func(context.Context) error {
		file, err := os.Open(path)
		if err != nil {
			return errors.Unwrap(err)
		}
		defer file.Close()
		n, err := file.Read(make([]byte, 16))
		return must(n == 0, "nothing in it (%v)", err)
	}}
}
