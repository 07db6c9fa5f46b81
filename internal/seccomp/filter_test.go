package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// decide runs the filter in an interpreter. The interpreter reads words big
// endian, the kernel in its own order, so the data is laid out word by word.
func decide(t testing.TB, filter []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(filter))
	for i, f := range filter {
		raw[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	instructions, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has an instruction that is not BPF")
	}
	vm, err := bpf.NewVM(instructions)
	testdir.Must(t, err)
	data := binary.BigEndian.AppendUint32(nil, nr)
	data = binary.BigEndian.AppendUint32(data, arch)
	data = append(data, make([]byte, 8)...) // instruction pointer
	for i := range 6 {
		var arg uint64
		if i < len(args) {
			arg = args[i]
		}
		data = binary.BigEndian.AppendUint32(data, uint32(arg))
		data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
	}
	action, err := vm.Run(data)
	testdir.Must(t, err)
	return uint32(action)
}

func mustFilter(t testing.TB, o Options) []unix.SockFilter {
	t.Helper()
	filter, err := Filter(o)
	testdir.Must(t, err)
	return filter
}

const allow = uint32(unix.SECCOMP_RET_ALLOW)

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func name(action uint32) string {
	switch {
	case action == allow:
		return "allowed"
	case action&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		return unix.Errno(action & unix.SECCOMP_RET_DATA).Error()
	case action == unix.SECCOMP_RET_KILL_PROCESS:
		return "killed"
	}
	return fmt.Sprintf("%#x", action)
}

const junk = 0xdead << 32 // high bits that the kernel does not look at

// judged is a call and what becomes of it.
type judged struct {
	name   string
	nr     uint32
	args   []uint64
	want   uint32 // by default
	nested uint32 // where namespaces nest; 0 is the same
}

func a(args ...uint64) []uint64 { return args }

func TestRules(t *testing.T) {
	const any = ^uint64(0)
	eperm, enosys := errno(unix.EPERM), errno(unix.ENOSYS)
	family, proto, kind := errno(unix.EAFNOSUPPORT), errno(unix.EPROTONOSUPPORT), errno(unix.ESOCKTNOSUPPORT)
	calls := []judged{
		{"read", unix.SYS_READ, a(any, any, any), allow, 0},
		{"ptrace", unix.SYS_PTRACE, a(any), allow, 0},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, nil, allow, 0},
		{"a filter of one's own", unix.SYS_SECCOMP, nil, allow, 0},

		{"clone: a thread", unix.SYS_CLONE, a(0x3d0f00), allow, 0},
		{"clone: a process", unix.SYS_CLONE, a(uint64(unix.SIGCHLD)), allow, 0},
		{"clone: user namespace", unix.SYS_CLONE, a(unix.CLONE_NEWUSER), eperm, allow},
		{"clone: user namespace and junk", unix.SYS_CLONE, a(junk | unix.CLONE_NEWUSER), eperm, allow},
		{"clone: network among others", unix.SYS_CLONE, a(unix.CLONE_NEWNET | 0x3d0f00), eperm, allow},
		{"clone3", unix.SYS_CLONE3, nil, enosys, allow},
		{"unshare: files", unix.SYS_UNSHARE, a(unix.CLONE_FILES | unix.CLONE_FS), allow, 0},
		{"unshare: mounts", unix.SYS_UNSHARE, a(unix.CLONE_NEWNS), eperm, allow},
		{"unshare: time", unix.SYS_UNSHARE, a(unix.CLONE_NEWTIME), eperm, allow},
		{"setns", unix.SYS_SETNS, a(3, 0), eperm, allow},
		{"mount", unix.SYS_MOUNT, nil, eperm, allow},
		{"umount2", unix.SYS_UMOUNT2, nil, eperm, allow},
		{"move_mount", unix.SYS_MOVE_MOUNT, nil, eperm, allow},
		{"open_tree", unix.SYS_OPEN_TREE, nil, eperm, allow},
		{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, nil, eperm, allow},
		{"fsopen", unix.SYS_FSOPEN, nil, eperm, allow},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, nil, eperm, allow},
		{"pivot_root", unix.SYS_PIVOT_ROOT, nil, eperm, allow},
		{"chroot", unix.SYS_CHROOT, nil, eperm, allow},

		{"socket: unix", unix.SYS_SOCKET, a(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0), allow, 0},
		{"socket: TCP", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0), allow, 0},
		{"socket: TCP by number", unix.SYS_SOCKET, a(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), allow, 0},
		{"socket: UDP", unix.SYS_SOCKET, a(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP), allow, 0},
		{"socket: UDP-Lite", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), proto, 0},
		{"socket: MPTCP", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), proto, 0},
		{"socket: SCTP", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), proto, 0},
		{"socket: SCTP one to many", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP), kind, 0},
		{"socket: SMC", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_STREAM, 256), proto, 0},
		{"socket: raw", unix.SYS_SOCKET, a(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP), eperm, 0},
		{"socket: raw and junk", unix.SYS_SOCKET, a(junk|unix.AF_INET, junk|unix.SOCK_RAW, junk|unix.IPPROTO_TCP), eperm, 0},
		{"socket: route", unix.SYS_SOCKET, a(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE), allow, 0},
		{"socket: netfilter", unix.SYS_SOCKET, a(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), proto, 0},
		{"socket: audit, high bits", unix.SYS_SOCKET, a(unix.AF_NETLINK, unix.SOCK_RAW, junk|unix.NETLINK_AUDIT), proto, 0},
		{"socket: uevents", unix.SYS_SOCKET, a(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), proto, 0},
		{"socket: vsock", unix.SYS_SOCKET, a(unix.AF_VSOCK, unix.SOCK_STREAM, 0), family, 0},
		{"socket: vsock and junk", unix.SYS_SOCKET, a(junk|unix.AF_VSOCK, unix.SOCK_STREAM, 0), family, 0},
		{"socket: packet", unix.SYS_SOCKET, a(unix.AF_PACKET, unix.SOCK_RAW, 0), family, 0},
		{"socket: alg", unix.SYS_SOCKET, a(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), family, 0},
		{"socket: tipc", unix.SYS_SOCKET, a(unix.AF_TIPC, unix.SOCK_DGRAM, 0), family, 0},
		{"socket: xdp", unix.SYS_SOCKET, a(unix.AF_XDP, unix.SOCK_RAW, 0), family, 0},
		{"socket: bluetooth", unix.SYS_SOCKET, a(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0), family, 0},
		{"socket: -1", unix.SYS_SOCKET, a(any, any, any), family, 0},
		{"socketpair: unix", unix.SYS_SOCKETPAIR, a(unix.AF_UNIX, unix.SOCK_STREAM, 0), allow, 0},
		{"socketpair: tipc and junk", unix.SYS_SOCKETPAIR, a(junk|unix.AF_TIPC, unix.SOCK_STREAM, 0), family, 0},
		{"setsockopt: nodelay", unix.SYS_SETSOCKOPT, a(3, unix.IPPROTO_TCP, unix.TCP_NODELAY), allow, 0},
		{"setsockopt: another level", unix.SYS_SETSOCKOPT, a(3, unix.SOL_SOCKET, unix.TCP_ULP), allow, 0},
		{"setsockopt: ULP", unix.SYS_SETSOCKOPT, a(3, unix.IPPROTO_TCP, unix.TCP_ULP), errno(unix.ENOPROTOOPT), 0},
		{"setsockopt: ULP and junk", unix.SYS_SETSOCKOPT, a(3, junk|unix.IPPROTO_TCP, junk|unix.TCP_ULP), errno(unix.ENOPROTOOPT), 0},

		{"ioctl: window size", unix.SYS_IOCTL, a(0, unix.TIOCGWINSZ), allow, 0},
		{"ioctl: TIOCSTI", unix.SYS_IOCTL, a(0, unix.TIOCSTI), eperm, 0},
		{"ioctl: TIOCSTI and junk", unix.SYS_IOCTL, a(0, junk|unix.TIOCSTI), eperm, 0},
		{"ioctl: TIOCLINUX", unix.SYS_IOCTL, a(0, 1<<32|unix.TIOCLINUX), eperm, 0},
		{"ioctl: TIOCSETD", unix.SYS_IOCTL, a(0, unix.TIOCSETD), eperm, 0},
		{"ioctl: fscrypt key", unix.SYS_IOCTL, a(3, 0xc0506617), eperm, 0},
		{"fcntl: flags", unix.SYS_FCNTL, a(0, unix.F_SETFL), allow, 0},
		{"fcntl: pipe size", unix.SYS_FCNTL, a(0, unix.F_SETPIPE_SZ), eperm, 0},
		{"fcntl: pipe size and junk", unix.SYS_FCNTL, a(0, junk|unix.F_SETPIPE_SZ), eperm, 0},
		{"fcntl: lease and junk", unix.SYS_FCNTL, a(3, junk|unix.F_SETLEASE, unix.F_WRLCK), errno(unix.EINVAL), 0},
		{"mmap", unix.SYS_MMAP, a(0, 4096, 3, unix.MAP_PRIVATE|unix.MAP_ANON), allow, 0},
		{"mmap: huge pages", unix.SYS_MMAP, a(0, 4096, 3, junk|unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB), errno(unix.ENOMEM), 0},
		{"memfd_create", unix.SYS_MEMFD_CREATE, a(0, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING), allow, 0},
		{"memfd_create: huge pages", unix.SYS_MEMFD_CREATE, a(0, unix.MFD_HUGETLB), errno(unix.ENOMEM), 0},
		{"prlimit64: itself", unix.SYS_PRLIMIT64, a(0, unix.RLIMIT_NPROC), allow, 0},
		{"prlimit64: itself and junk", unix.SYS_PRLIMIT64, a(junk, unix.RLIMIT_NPROC), allow, 0},
		{"prlimit64: PID 1", unix.SYS_PRLIMIT64, a(1, unix.RLIMIT_NPROC), eperm, 0},
		{"personality: query", unix.SYS_PERSONALITY, a(0xffffffff), allow, 0},
		{"personality: debugger", unix.SYS_PERSONALITY, a(0x40000), allow, 0},
		{"personality: READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, a(0x400000), eperm, 0},
		{"personality: and junk", unix.SYS_PERSONALITY, a(junk | 0x400000), eperm, 0},

		{"openat: read, mode is junk", unix.SYS_OPENAT, a(0, 0, unix.O_RDWR|unix.O_CLOEXEC|unix.O_DIRECTORY, any), allow, 0},
		{"openat: create", unix.SYS_OPENAT, a(0, 0, unix.O_CREAT|unix.O_WRONLY, 0o1777), allow, 0},
		{"openat: create setuid", unix.SYS_OPENAT, a(0, 0, unix.O_CREAT|unix.O_WRONLY, 0o4755), eperm, 0},
		{"openat: create setgid and junk", unix.SYS_OPENAT, a(0, 0, junk|unix.O_CREAT, junk|0o2755), eperm, 0},
		{"openat: temporary setuid", unix.SYS_OPENAT, a(0, 0, unix.O_TMPFILE|unix.O_RDWR, 0o4700), eperm, 0},
		{"openat2", unix.SYS_OPENAT2, nil, enosys, 0},
		{"fchmod", unix.SYS_FCHMOD, a(3, 0o755), allow, 0},
		{"fchmod: setuid", unix.SYS_FCHMOD, a(3, junk|0o4755), eperm, 0},
		{"fchmodat: setgid", unix.SYS_FCHMODAT, a(0, 0, 0o2755), eperm, 0},
		{"fchmodat2: setuid", unix.SYS_FCHMODAT2, a(0, 0, 0o6755), eperm, 0},
		{"fchmodat2: sticky", unix.SYS_FCHMODAT2, a(0, 0, 0o1777), allow, 0},
		{"mknodat: FIFO", unix.SYS_MKNODAT, a(0, 0, unix.S_IFIFO|0o600), allow, 0},
		{"mknodat: file", unix.SYS_MKNODAT, a(0, 0, 0o600), allow, 0},
		{"mknodat: setuid file", unix.SYS_MKNODAT, a(0, 0, unix.S_IFREG|0o4755), eperm, 0},
		{"mknodat: disk", unix.SYS_MKNODAT, a(0, 0, junk|unix.S_IFBLK|0o600), eperm, 0},
		{"mknodat: character device", unix.SYS_MKNODAT, a(0, 0, unix.S_IFCHR|0o600), eperm, allow},
		{"mknodat: bits above the type", unix.SYS_MKNODAT, a(0, 0, 0xffff0000|unix.S_IFBLK), eperm, 0},
		{"renameat2", unix.SYS_RENAMEAT2, a(0, 0, 0, 0, unix.RENAME_EXCHANGE), allow, 0},
		{"renameat2: whiteout", unix.SYS_RENAMEAT2, a(0, 0, 0, 0, junk|unix.RENAME_WHITEOUT), errno(unix.EINVAL), allow},

		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, enosys, 0},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, nil, enosys, 0},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, nil, enosys, 0},
		{"io_setup", unix.SYS_IO_SETUP, nil, enosys, 0},
		{"after the newest", unix.SYS_RSEQ_SLICE_YIELD + 1, nil, enosys, 0},
		{"far beyond", 100_000, nil, enosys, 0},
		{"-1", 0xffffffff, nil, enosys, 0},
	}
	for _, nr := range []uint32{
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE,
		unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
		unix.SYS_FANOTIFY_INIT,
	} {
		calls = append(calls, judged{fmt.Sprintf("refused call %d", nr), nr, nil, eperm, 0})
	}
	calls = append(calls, legacyCalls()...)
	for o, filter := range map[Options][]unix.SockFilter{
		{}:                       mustFilter(t, Options{}),
		{NestedNamespaces: true}: mustFilter(t, Options{NestedNamespaces: true}),
	} {
		for _, c := range calls {
			want := c.want
			if o.NestedNamespaces && c.nested != 0 {
				want = c.nested
			}
			if got := decide(t, filter, nativeArch, c.nr, c.args...); got != want {
				t.Errorf("%s (%+v): %s, want %s", c.name, o, name(got), name(want))
			}
		}
	}
}

func TestForeignEntry(t *testing.T) {
	filter := mustFilter(t, Options{})
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_X86_64, 0} {
		if arch == nativeArch {
			continue
		}
		if got := decide(t, filter, arch, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("architecture %#x: %s", arch, name(got))
		}
	}
	for nr := range uint32(600) { // x32
		if got := decide(t, filter, nativeArch, 0x40000000|nr); got != errno(unix.ENOSYS) {
			t.Errorf("call %d of x32: %s", nr, name(got))
		}
	}
}

// Every number up to the newest known must be in one list only, or be
// absent on purpose: nothing gets in by oversight.
func TestEveryCallIsJudged(t *testing.T) {
	b := builder{program: newProgram()}
	seen := map[uint32]string{}
	mark := func(calls []uint32, list string) {
		for _, nr := range calls {
			if other, ok := seen[nr]; ok {
				t.Errorf("call %d is in %s and in %s", nr, other, list)
			}
			seen[nr] = list
		}
	}
	ruled := func(m map[uint32]int) (calls []uint32) {
		for nr := range m {
			calls = append(calls, nr)
		}
		return calls
	}
	mark(allowed(), "allowed")
	mark(refused(), "refused")
	mark(nesting(), "nesting")
	mark(ruled(b.rules()), "rules")
	mark(ruled(b.legacyRules()), "legacyRules")
	mark(absent(), "absent")
	if runtime.GOARCH != "amd64" {
		return // other tables have holes
	}
	for nr := uint32(0); nr <= unix.SYS_RSEQ_SLICE_YIELD; nr++ {
		if _, ok := seen[nr]; !ok && (nr < 337 || nr > 423) { // a hole in every table
			t.Errorf("nobody decided about call %d", nr)
		}
	}
}

// absent are the calls that give ENOSYS on purpose.
func absent() []uint32 {
	return append(legacyAbsent(), []uint32{
		unix.SYS_FILE_GETATTR, unix.SYS_FILE_SETATTR, unix.SYS_GET_MEMPOLICY, unix.SYS_IO_CANCEL,
		unix.SYS_IO_DESTROY, unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS, unix.SYS_IO_SETUP, unix.SYS_IO_SUBMIT,
		unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_URING_SETUP, unix.SYS_LISTMOUNT,
		unix.SYS_LISTNS, unix.SYS_LSM_GET_SELF_ATTR, unix.SYS_LSM_LIST_MODULES, unix.SYS_LSM_SET_SELF_ATTR,
		unix.SYS_MBIND, unix.SYS_MEMFD_SECRET, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_NFSSERVCTL,
		unix.SYS_OPENAT2, unix.SYS_RSEQ_SLICE_YIELD, unix.SYS_SET_MEMPOLICY, unix.SYS_SET_MEMPOLICY_HOME_NODE,
		unix.SYS_STATMOUNT,
	}...)
}

func TestSize(t *testing.T) {
	filter := mustFilter(t, Options{})
	t.Logf("%d instructions", len(filter))
	if len(filter) > 600 {
		t.Errorf("%d instructions", len(filter))
	}
	if !slices.Equal(filter, mustFilter(t, Options{})) {
		t.Error("two builds differ")
	}
}

// Where mounts are to be kept no namespace inside can be one without them.
func TestMountsAreKept(t *testing.T) {
	eperm, einval := errno(unix.EPERM), errno(unix.EINVAL)
	filter := mustFilter(t, Options{NestedNamespaces: true, KeepMounts: true})
	for _, tc := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"umount2", unix.SYS_UMOUNT2, a(0, unix.MNT_DETACH), eperm},
		{"clone3", unix.SYS_CLONE3, nil, errno(unix.ENOSYS)},
		{"clone: mounts", unix.SYS_CLONE, a(unix.CLONE_NEWNS | unix.CLONE_NEWUSER), allow},
		{"unshare: mounts", unix.SYS_UNSHARE, a(unix.CLONE_NEWNS | unix.CLONE_NEWUSER), allow},
		{"unshare: a flag to come", unix.SYS_UNSHARE, a(junk | unix.CLONE_NEWNS | 0x100000), einval},
		{"mount", unix.SYS_MOUNT, nil, allow},
		{"pivot_root", unix.SYS_PIVOT_ROOT, nil, allow},
		{"open_tree", unix.SYS_OPEN_TREE, a(0, 0, unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH), allow},
		{"open_tree: a flag to come", unix.SYS_OPEN_TREE, a(0, 0, 2), einval},
		{"open_tree_attr: a flag to come", unix.SYS_OPEN_TREE_ATTR, a(0, 0, 2), einval},
		{"fsmount", unix.SYS_FSMOUNT, a(3, unix.FSMOUNT_CLOEXEC), allow},
		{"fsmount: a flag to come", unix.SYS_FSMOUNT, a(3, 2), einval},
	} {
		if got := decide(t, filter, nativeArch, tc.nr, tc.args...); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, name(got), name(tc.want))
		}
	}
}

func FuzzFilter(f *testing.F) {
	filter := mustFilter(f, Options{})
	f.Add(uint32(unix.SYS_SOCKET), uint64(0xdead00000028), uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, nr uint32, a0, a1, a2 uint64) {
		got := decide(t, filter, nativeArch, nr, a0, a1, a2)
		if low := decide(t, filter, nativeArch, nr, a0&0xffffffff, a1&0xffffffff, a2&0xffffffff); got != low {
			t.Errorf("high bits decide: %s and %s", name(got), name(low))
		}
		switch {
		case got != allow:
		case nr > unix.SYS_RSEQ_SLICE_YIELD:
			t.Errorf("call %d is allowed", nr)
		case nr == unix.SYS_SOCKET && !slices.Contains([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}, uint32(a0)):
			t.Errorf("family %d is allowed", uint32(a0))
		}
	})
}
