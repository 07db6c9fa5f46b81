package seccomp

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

// legacy are allowed calls that only older architectures have.
func legacy() []uint32 {
	return []uint32{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE,
		unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS,
		unix.SYS_GETPGRP, unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_MKDIR,
		unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR,
		unix.SYS_SELECT, unix.SYS_SIGNALFD, unix.SYS_STAT, unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK,
		unix.SYS_UPROBE, unix.SYS_URETPROBE, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
	}
}

func legacyRefused() []uint32 { return []uint32{unix.SYS_IOPL, unix.SYS_IOPERM} }

// legacyRules are the older forms of calls that have rules.
func (b *builder) legacyRules() map[uint32]int {
	return map[uint32]int{
		unix.SYS_OPEN:  b.creation(1, 2),
		unix.SYS_CREAT: b.mode(1),
		unix.SYS_CHMOD: b.mode(1),
		unix.SYS_MKNOD: b.node(1),
	}
}
