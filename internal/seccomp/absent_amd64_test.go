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
