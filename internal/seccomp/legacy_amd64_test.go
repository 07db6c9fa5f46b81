package seccomp

import "golang.org/x/sys/unix"

func legacyAbsent() []uint32 {
	return []uint32{
		unix.SYS_AFS_SYSCALL, unix.SYS_CREATE_MODULE, unix.SYS_EPOLL_CTL_OLD, unix.SYS_EPOLL_WAIT_OLD,
		unix.SYS_GETPMSG, unix.SYS_GET_KERNEL_SYMS, unix.SYS_GET_THREAD_AREA, unix.SYS_MODIFY_LDT, unix.SYS_PUTPMSG,
		unix.SYS_QUERY_MODULE, unix.SYS_SECURITY, unix.SYS_SET_THREAD_AREA, unix.SYS_SYSFS, unix.SYS_TUXCALL,
		unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_VSERVER, unix.SYS__SYSCTL,
	}
}

// legacyCalls are the older forms of calls that have rules.
func legacyCalls() []judged {
	eperm := errno(unix.EPERM)
	return []judged{
		{"open: read, mode is junk", unix.SYS_OPEN, a(0, unix.O_RDONLY, 0o4755), allow, 0},
		{"open: create", unix.SYS_OPEN, a(0, unix.O_CREAT, 0o755), allow, 0},
		{"open: create setuid", unix.SYS_OPEN, a(0, unix.O_CREAT, 0o4755), eperm, 0},
		{"creat: setgid", unix.SYS_CREAT, a(0, 0o2755), eperm, 0},
		{"creat", unix.SYS_CREAT, a(0, 0o755), allow, 0},
		{"chmod: setuid and junk", unix.SYS_CHMOD, a(0, junk|0o4755), eperm, 0},
		{"mknod: disk", unix.SYS_MKNOD, a(0, unix.S_IFBLK|0o600), eperm, 0},
		{"mknod: setuid", unix.SYS_MKNOD, a(0, unix.S_IFREG|0o4600), eperm, 0},
		{"mknod: whiteout", unix.SYS_MKNOD, a(0, unix.S_IFCHR), eperm, allow},
		{"fork", unix.SYS_FORK, nil, allow, 0},
		{"iopl", unix.SYS_IOPL, a(3), eperm, 0},
		{"modify_ldt", unix.SYS_MODIFY_LDT, nil, errno(unix.ENOSYS), 0},
	}
}
