package seccomp

import "golang.org/x/sys/unix"

// rules are the calls whose arguments decide.
func (b *builder) rules() map[uint32]int {
	return map[uint32]int{
		unix.SYS_CLONE:          b.namespaces(newNamespaces, b.allow),
		unix.SYS_UNSHARE:        b.namespaces(newNamespaces|unix.CLONE_NEWTIME, b.known(0, knownUnshare)),
		unix.SYS_CLONE3:         b.ifLoose(b.enosys), // flags out of sight; libc falls back to clone
		unix.SYS_UMOUNT2:        b.ifLoose(b.eperm),
		unix.SYS_SOCKET:         b.socket(),
		unix.SYS_SOCKETPAIR:     b.equals(low(0), unix.AF_UNIX, b.allow, b.errno(unix.EAFNOSUPPORT)),
		unix.SYS_SETSOCKOPT:     b.setsockopt(),
		unix.SYS_IOCTL:          b.anyOf(low(1), refusedIoctls(), b.eperm, b.allow),
		unix.SYS_FCNTL:          b.fcntl(),
		unix.SYS_PRLIMIT64:      b.equals(low(0), 0, b.allow, b.eperm), // of the caller alone
		unix.SYS_PERSONALITY:    b.anyOf(low(0), personalities(), b.allow, b.eperm),
		unix.SYS_OPEN_TREE:      b.known(2, knownOpenTree),
		unix.SYS_OPEN_TREE_ATTR: b.known(2, knownOpenTree),
		unix.SYS_FSMOUNT:        b.known(1, knownFSMount),
		// Huge pages come out of a pool of the whole machine. Who asks for them falls back.
		unix.SYS_MMAP:         b.bits(3, unix.MAP_HUGETLB, b.errno(unix.ENOMEM), b.allow),
		unix.SYS_MEMFD_CREATE: b.bits(1, unix.MFD_HUGETLB, b.errno(unix.ENOMEM), b.allow),
		unix.SYS_OPENAT:       b.creation(2, 3),
		unix.SYS_FCHMOD:       b.mode(1),
		unix.SYS_FCHMODAT:     b.mode(2),
		unix.SYS_FCHMODAT2:    b.mode(2),
		unix.SYS_MKNODAT:      b.node(2),
		unix.SYS_RENAMEAT2:    b.ifNested(b.bits(4, unix.RENAME_WHITEOUT, b.errno(unix.EINVAL), b.allow)), // makes a device node
	}
}

// fcntl refuses what reaches the host's user: pipe buffers are a quota of theirs, and a lease on a
// file makes its next opener wait for 45 seconds (fcntl(2)).
func (b *builder) fcntl() int {
	return b.equals(low(1), unix.F_SETPIPE_SZ, b.eperm,
		b.equals(low(1), unix.F_SETLEASE, b.errno(unix.EINVAL), b.allow))
}

// newNamespaces are clone's flags that make a namespace. CLONE_NEWTIME is not among
// them: clone takes that bit for part of a signal's number.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

func (b *builder) namespaces(flags uint32, nested int) int {
	if b.nested {
		return nested
	}
	return b.bits(0, flags, b.eperm, b.allow)
}

// Flags of calls that make a namespace, or may in a later kernel: one that begins without any mount
// has not got those of the sandbox.
const (
	knownUnshare = newNamespaces | unix.CLONE_NEWTIME | unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM |
		unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	knownOpenTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_EMPTY_PATH |
		unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW
	knownFSMount = unix.FSMOUNT_CLOEXEC
)

// known refuses, as a kernel of today does, flags that a later one has, where mounts are to be
// kept.
func (b *builder) known(arg, flags uint32) int {
	if !b.nested {
		return b.eperm
	}
	if !b.kept {
		return b.allow
	}
	return b.bits(arg, ^flags, b.errno(unix.EINVAL), b.allow)
}

// socketType is the type in the second argument of socket, without
// SOCK_CLOEXEC and SOCK_NONBLOCK: SOCK_TYPE_MASK, linux/net.h.
var socketType = word{1, 0xf}

// socket allows unix sockets, TCP, UDP, ping and reading the network's configuration. Other
// families have no namespaces (AF_VSOCK), or bring a kernel module that is not needed; so do other
// protocols over IP (SCTP, DCCP, UDP-Lite, SMC, MPTCP).
func (b *builder) socket() int {
	if b.closed {
		return b.eperm
	}
	noProtocol := b.errno(unix.EPROTONOSUPPORT)
	stream := b.anyOf(low(2), []uint32{0, unix.IPPROTO_TCP}, b.allow, noProtocol)
	datagram := b.anyOf(low(2), []uint32{0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}, b.allow, noProtocol)
	other := b.equals(socketType, unix.SOCK_RAW, b.eperm, b.errno(unix.ESOCKTNOSUPPORT))
	internet := b.equals(socketType, unix.SOCK_STREAM, stream,
		b.equals(socketType, unix.SOCK_DGRAM, datagram, other))
	netlink := b.equals(low(2), unix.NETLINK_ROUTE, b.allow, noProtocol)
	return b.equals(low(0), unix.AF_UNIX, b.allow,
		b.anyOf(low(0), []uint32{unix.AF_INET, unix.AF_INET6}, internet,
			b.equals(low(0), unix.AF_NETLINK, netlink, b.errno(unix.EAFNOSUPPORT))))
}

// setsockopt refuses TCP_ULP, which puts kernel TLS, SMC or ESP under a TCP
// socket, loading the module.
func (b *builder) setsockopt() int {
	upper := b.equals(low(2), unix.TCP_ULP, b.errno(unix.ENOPROTOOPT), b.allow)
	return b.equals(low(1), unix.IPPROTO_TCP, upper, b.allow)
}

// refusedIoctls act on a terminal that others read (TIOCSTI and TIOCLINUX put
// characters in), load line disciplines (TIOCSETD), or add keys to a quota
// shared with the caller and lock folders of the workspace with them (fscrypt).
func refusedIoctls() []uint32 {
	const setPolicy, addKey = 0x800c6613, 0xc0506617 // FS_IOC_SET_ENCRYPTION_POLICY, FS_IOC_ADD_ENCRYPTION_KEY
	return []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, setPolicy, addKey}
}

// personalities are the execution domains that are only cosmetic, asking for the
// current one, and address randomisation off, which debuggers set:
// linux/personality.h. READ_IMPLIES_EXEC and the emulations are refused.
func personalities() []uint32 {
	const linux32, uname26, noRandomize, query = 0x8, 0x20000, 0x40000, 0xffffffff
	return []uint32{query, 0, noRandomize, linux32, uname26, linux32 | uname26, linux32 | noRandomize}
}

// setID are the mode bits that make a program run as its owner or group. A file in the workspace
// belongs to the caller on the host too: with such a bit, it would there give its other users the
// caller's rights.
const setID = unix.S_ISUID | unix.S_ISGID

// mode refuses setID in the mode in an argument. Directories' harmless
// set-group-ID can't be told apart and is refused too.
func (b *builder) mode(arg uint32) int { return b.bits(arg, setID, b.eperm, b.allow) }

// creation is mode where flags say that a file may be made; elsewhere the
// mode's register holds anything.
func (b *builder) creation(flags, mode uint32) int {
	const tmpfile = 0x400000 // __O_TMPFILE, asm-generic/fcntl.h: O_TMPFILE without O_DIRECTORY
	return b.bits(flags, unix.O_CREAT|tmpfile, b.mode(mode), b.allow)
}

// node is mode without device nodes. A kernel allows anybody the character
// device 0:0, an overlay's whiteout, which is left to nested containers.
func (b *builder) node(mode uint32) int {
	kind := word{mode, unix.S_IFMT}
	return b.equals(kind, unix.S_IFBLK, b.eperm,
		b.equals(kind, unix.S_IFCHR, b.ifNested(b.eperm), b.mode(mode)))
}
