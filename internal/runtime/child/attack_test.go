package child

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testdir"
)

// attackerName is argv[0] of the test binary as the attacker: it finds itself
// inside at Program, runs every attack and prints those that got through.
const attackerName = "forage-attack"

// attacks are tried by an agent inside; each returns an error when it got through.
var attacks = map[string]func() error{
	"privileges":              attackPrivileges,
	"mounting":                attackMounting,
	"remounting":              attackRemounting,
	"unmounting":              attackUnmounting,
	"namespaces":              attackNamespaces,
	"PID 1 through /proc":     attackProc1,
	"signals to PID 1":        attackSignals,
	"tracing PID 1":           attackTrace,
	"sysctls":                 attackSysctls,
	"machine-wide /proc":      attackMachineProc,
	"other identities":        attackIdentity,
	"set-ID and device files": attackSpecialModes,
	"devices":                 attackDevices,
	"the root file system":    attackRoot,
	"way out by paths":        attackPaths,
	"mount table":             attackMountTable,
	"the host's sockets":      attackSockets,
	"new sockets and FIFOs":   attackNewSockets,
	"descriptors":             attackDescriptors,
	"our program":             attackProgram,
	"git":                     attackGit,
	"quotas":                  attackQuotas,
	"terminal":                attackTerminal,
	"network":                 attackNetwork,
}

func attackMain() error {
	var through []error
	for name, attack := range attacks {
		if err := attack(); err != nil {
			through = append(through, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(through...)
}

// TestAttacks runs every attack in a sandbox whose workspace the host has
// prepared with what attackers look for.
func TestAttacks(t *testing.T) {
	dir := testdir.Plain(t)
	chownWorkspace(t, dir)
	for _, folder := range []string{".git/hooks", "deep/er"} {
		must(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, ".git/config"), []byte("[core]\n"), 0o644))
	for _, path := range []string{"docker.sock", "deep/er/agent.sock", ".git/fsmonitor.sock"} {
		l, err := net.Listen("unix", filepath.Join(dir, path))
		must(t, err)
		defer l.Close()
		must(t, os.Chmod(filepath.Join(dir, path), 0o777))
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "deep/fifo"), 0o666))
	must(t, os.Chmod(filepath.Join(dir, "deep/fifo"), 0o666))
	name := fmt.Sprintf("@forage-native-test-%d", os.Getpid())
	abstract, err := net.Listen("unix", name)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "abstract"), []byte(name), 0o644))
	defer abstract.Close()
	chownTree(t, dir)

	i, err := boxed(t, baseSpec(t, dir), script{Argv: []string{Program}, Name: attackerName})
	must(t, err)
	if o := answer(t, i); o.Code != 0 {
		t.Errorf("got through:\n%s", o.Out)
	}
	if _, err := os.Stat(filepath.Join(dir, "proof")); err != nil {
		t.Errorf("the attacker could not write to its workspace: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chownWorkspace gives dir, when root runs the tests, to an ordinary user who is
// not the agent's.
func chownWorkspace(t testing.TB, dir string) {
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir, workspaceOwner, workspaceOwner))
	}
}

const workspaceOwner = 45678

func chownTree(t testing.TB, dir string) {
	if os.Geteuid() != 0 {
		return
	}
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, workspaceOwner, workspaceOwner))
	}))
}

// refused turns an attack that got through, or failed for a reason that is none, into an error.
func refused(what string, err error, reasons ...unix.Errno) error {
	for _, reason := range reasons {
		if errors.Is(err, reason) {
			return nil
		}
	}
	return fmt.Errorf("%s: %v, want one of %v", what, err, reasons)
}

func status(pid, field string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func attackPrivileges() error {
	var errs []error
	for field, want := range map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got := status("self", field); got != want {
			errs = append(errs, fmt.Errorf("%s is %s", field, got))
		}
	}
	for _, field := range []string{"CapPrm", "CapEff", "CapInh", "CapAmb"} {
		if got := status("1", field); got != "0000000000000000" {
			errs = append(errs, fmt.Errorf("PID 1: %s is %s", field, got))
		}
	}
	threads, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		if got := status("1/task/"+thread.Name(), "CapPrm") + status("1/task/"+thread.Name(), "Seccomp"); got != "00000000000000002" {
			errs = append(errs, fmt.Errorf("PID 1's thread %s: %s", thread.Name(), got))
		}
	}
	return errors.Join(errs...)
}

func attackMounting() error {
	denied := []unix.Errno{unix.EPERM, unix.ENOSYS}
	_, openTree := unix.OpenTree(unix.AT_FDCWD, "/workspace", unix.OPEN_TREE_CLONE)
	_, fsopen := unix.Fsopen("tmpfs", 0)
	return errors.Join(
		refused("tmpfs", unix.Mount("x", "/tmp", "tmpfs", 0, ""), denied...),
		refused("bind", unix.Mount("/workspace", "/tmp", "", unix.MS_BIND, ""), denied...),
		refused("proc", unix.Mount("proc", "/tmp", "proc", 0, ""), denied...),
		refused("open_tree", openTree, denied...),
		refused("fsopen", fsopen, denied...),
		refused("pivot_root", unix.PivotRoot("/workspace", "/workspace"), denied...),
		refused("chroot", unix.Chroot("/workspace"), denied...))
}

func attackRemounting() error {
	var errs []error
	for _, at := range []string{"/", "/usr", "/workspace/.git", "/proc/sys", "/dev/null", forage.RunPath} {
		errs = append(errs, refused(at, unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND, ""), unix.EPERM, unix.ENOSYS))
		err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
		errs = append(errs, refused(at, err, unix.EPERM, unix.ENOSYS))
	}
	return errors.Join(errs...)
}

func attackUnmounting() error {
	var errs []error
	for _, at := range []string{"/workspace/.git", "/workspace/docker.sock", "/proc/sys", "/proc/keys", "/usr", "/"} {
		for _, flags := range []int{0, unix.MNT_DETACH} {
			errs = append(errs, refused(at, unix.Unmount(at, flags), unix.EPERM, unix.ENOSYS))
		}
	}
	return errors.Join(errs...)
}

func attackNamespaces() error {
	var errs []error
	for name, flag := range map[string]int{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "network": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
		"user and mount": unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
	} {
		errs = append(errs, refused("unshare "+name, unix.Unshare(flag), unix.EPERM))
		_, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(flag|int(unix.SIGCHLD)), 0, 0)
		errs = append(errs, refused("clone "+name, errnoOrNil(errno), unix.EPERM, unix.EINVAL))
	}
	errs = append(errs, refused("unshare time", unix.Unshare(unix.CLONE_NEWTIME), unix.EPERM)) // no flag of clone's
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	errs = append(errs, refused("clone3", errnoOrNil(errno), unix.ENOSYS))
	for _, ns := range []string{"user", "mnt", "net"} {
		_, err := os.Open("/proc/1/ns/" + ns)
		errs = append(errs, refused("PID 1's "+ns, err, unix.EACCES, unix.EPERM))
	}
	text, _ := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if strings.TrimSpace(string(text)) != "0" {
		errs = append(errs, fmt.Errorf("max_user_namespaces is %s", text))
	}
	return errors.Join(errs...)
}

func errnoOrNil(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func attackProc1() error {
	var errs []error
	for _, name := range []string{"root/", "root/etc/passwd", "cwd/", "exe", "fd/0", "fd/1", "fd/3", "environ", "mem", "maps", "map_files", "ns/mnt", "task/1/mem", "io", "syscall", "stack", "auxv"} {
		if f, err := os.Open("/proc/1/" + name); err == nil {
			_, err = f.Read(make([]byte, 16))
			f.Close()
			errs = append(errs, refused(name, err, unix.EACCES, unix.EPERM, unix.EISDIR, unix.EIO)) // opened: nothing may come out
			if errors.Is(err, unix.EISDIR) {
				entries, _ := os.ReadDir("/proc/1/" + name)
				if len(entries) > 0 {
					errs = append(errs, fmt.Errorf("%s lists %d entries", name, len(entries)))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func attackSignals() error {
	var errs []error
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGTERM, unix.SIGQUIT, unix.SIGSTOP, unix.SIGHUP, unix.SIGUSR1, unix.SIGABRT, 33, 64} {
		errs = append(errs, refused(fmt.Sprintf("signal %d", signal), unix.Kill(1, signal), unix.EPERM))
	}
	_, _, errno := unix.RawSyscall(unix.SYS_TGKILL, 1, 1, uintptr(unix.SIGKILL))
	errs = append(errs, refused("tgkill", errnoOrNil(errno), unix.EPERM))
	fd, err := unix.PidfdOpen(1, 0)
	if err == nil {
		errs = append(errs, refused("pidfd_send_signal", unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0), unix.EPERM))
		_, err := unix.PidfdGetfd(fd, 0, 0)
		errs = append(errs, refused("pidfd_getfd", err, unix.EPERM, unix.ENOSYS))
	}
	unix.Kill(-1, 0)
	return errors.Join(errs...)
}

func attackTrace() error {
	var b [8]byte
	local := []unix.Iovec{{Base: &b[0], Len: 8}}
	_, readErr := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	return errors.Join(
		refused("ptrace", unix.PtraceAttach(1), unix.EPERM),
		refused("seize", unix.PtraceSeize(1), unix.EPERM),
		refused("process_vm_readv", readErr, unix.EPERM, unix.ENOSYS))
}

func attackSysctls() error {
	var errs []error
	filepath.WalkDir("/proc/sys", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			f.Close()
			errs = append(errs, fmt.Errorf("%s can be written", path))
		}
		return nil
	})
	return errors.Join(errs...)
}

func attackMachineProc() error {
	var errs []error
	for _, name := range maskedProc {
		if text, err := os.ReadFile("/proc/" + name); err == nil && len(text) > 0 {
			errs = append(errs, fmt.Errorf("%s can be read", name))
		}
		if err := os.WriteFile("/proc/"+name, []byte("h"), 0); err == nil {
			errs = append(errs, fmt.Errorf("%s can be written", name))
		}
	}
	return errors.Join(errs...)
}

func attackIdentity() error {
	denied := []unix.Errno{unix.EPERM, unix.EINVAL}
	var errs []error
	for _, id := range []int{0, 1, 1000000, 65534} {
		if id == os.Getuid() || id == os.Getgid() {
			continue
		}
		errs = append(errs,
			refused(fmt.Sprintf("setresuid %d", id), unix.Setresuid(id, id, id), denied...),
			refused(fmt.Sprintf("setresgid %d", id), unix.Setresgid(id, id, id), denied...),
			refused(fmt.Sprintf("setgroups %d", id), unix.Setgroups([]int{id}), denied...),
			refused(fmt.Sprintf("chown %d", id), chownNew(id), denied...))
	}
	if groups := strings.Fields(status("self", "Groups")); len(groups) > 1 || len(groups) == 1 && groups[0] != strconv.Itoa(os.Getgid()) {
		errs = append(errs, fmt.Errorf("groups: %v", groups))
	}
	return errors.Join(errs...)
}

func chownNew(id int) error {
	const path = "/workspace/chowned"
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return err
	}
	defer os.Remove(path)
	return unix.Lchown(path, id, id)
}

func attackSpecialModes() error {
	const path = "/workspace/proof"
	if err := os.WriteFile(path, []byte("x"), 0o755); err != nil {
		return err
	}
	return errors.Join(
		refused("chmod u+s", unix.Chmod(path, 0o4755), unix.EPERM),
		refused("chmod g+s", unix.Chmod(path, 0o2755), unix.EPERM),
		refused("mknod", unix.Mknod("/tmp/mem", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))), unix.EPERM),
		refused("mknod", unix.Mknod("/workspace/sda", unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))), unix.EPERM, unix.EACCES))
}

func attackDevices() error {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	known := []string{"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			err = errors.Join(err, fmt.Errorf("/dev/%s is there", e.Name()))
		}
	}
	if f, openErr := os.OpenFile("/dev/null", os.O_WRONLY, 0); openErr != nil {
		err = errors.Join(err, openErr)
	} else if _, writeErr := f.WriteString("x"); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	return err
}

func attackRoot() error {
	var errs []error
	for _, dir := range []string{"/", "/etc", "/usr", "/usr/bin", "/dev", "/sys", "/var", "/home", "/proc", forage.RunPath, "/etc/ssl", "/opt", "/sys/devices/system/cpu"} {
		if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err == nil {
			errs = append(errs, fmt.Errorf("%s can be written", dir))
		}
		if err := os.Rename(dir, "/tmp/renamed"); err == nil {
			errs = append(errs, fmt.Errorf("%s can be renamed", dir))
		}
	}
	for _, path := range []string{"/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/profile", "/bin"} {
		errs = append(errs,
			refused(path, os.Remove(path), unix.EROFS, unix.EACCES, unix.EBUSY),
			refused(path, os.WriteFile(path, []byte("x"), 0o644), unix.EROFS, unix.EACCES, unix.EISDIR),
			refused(path, unix.Chmod(path, 0o777), unix.EROFS, unix.EPERM))
	}
	return errors.Join(errs...)
}

func attackPaths() error {
	var errs []error
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return err
	}
	for _, path := range []string{"/..", "/../..", "/proc/self/root", "/proc/self/root/..", "/workspace/..", "/proc/self/cwd/../../..", "/usr/../.."} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Ino != root.Ino || st.Dev != root.Dev {
			errs = append(errs, fmt.Errorf("%s leads elsewhere: %v", path, err))
		}
	}
	for _, path := range []string{"/root", "/boot", "/srv", "/mnt", "/media", "/var/lib", "/var/log", "/etc/shadow", "/etc/ssl/private", "/etc/ssh", "/etc/sudoers", "/etc/machine-id", "/run/user", "/run/dbus", "/var/run"} {
		if _, err := os.Lstat(path); err == nil {
			errs = append(errs, fmt.Errorf("%s is there", path))
		}
	}
	if homes, _ := os.ReadDir("/home"); len(homes) != 1 {
		errs = append(errs, fmt.Errorf("%d homes", len(homes)))
	}
	return errors.Join(errs...)
}

// writableMounts are the only ones.
var writableMounts = []string{"/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/pts", "/proc", "/workspace", forage.HomePath}

// attackMountTable looks for anything of the old root: every mount must be at a known place.
func attackMountTable() error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var errs []error
	roots := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch at := fields[4]; {
		case at == "/":
			roots++
		case strings.HasPrefix(at, "/sys/") && !strings.HasPrefix(at, "/sys/devices/system/"),
			strings.HasPrefix(at, "/mnt"), strings.HasPrefix(at, "/work/"):
			errs = append(errs, fmt.Errorf("%s is mounted", at))
		}
		if options := fields[5]; !strings.Contains(options, "nosuid") {
			errs = append(errs, fmt.Errorf("%s: %s", fields[4], options))
		}
		if !slices.Contains(writableMounts, fields[4]) && !strings.HasPrefix(fields[5], "ro") {
			errs = append(errs, fmt.Errorf("%s is mounted %s", fields[4], fields[5]))
		}
		if strings.Contains(lines.Text(), "shared:") || strings.Contains(lines.Text(), "master:") {
			errs = append(errs, fmt.Errorf("%s is propagated: %s", fields[4], lines.Text()))
		}
	}
	if roots != 1 {
		errs = append(errs, fmt.Errorf("%d mounts at /", roots))
	}
	return errors.Join(errs...)
}

func attackSockets() error {
	abstract, err := os.ReadFile("/workspace/abstract")
	errs := []error{err}
	for _, path := range []string{"/workspace/docker.sock", "/workspace/deep/er/agent.sock", "/workspace/.git/fsmonitor.sock", string(abstract)} {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		errs = append(errs, refused(path, err, unix.ECONNREFUSED, unix.EACCES, unix.EPERM))
	}
	if f, err := os.OpenFile("/workspace/deep/fifo", os.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
		errs = append(errs, errors.New("the FIFO can be opened"))
		f.Close()
	}
	for _, move := range []string{"/workspace/docker.sock", "/workspace/deep/fifo"} {
		errs = append(errs,
			refused("rename "+move, os.Rename(move, move+"2"), unix.EBUSY, unix.EACCES),
			refused("remove "+move, os.Remove(move), unix.EBUSY),
			refused("link "+move, os.Link(move, "/workspace/linked"), unix.EXDEV))
	}
	return errors.Join(errs...)
}

func attackNewSockets() error {
	var errs []error
	for _, dir := range []string{"/workspace", "/workspace/deep"} {
		_, err := net.Listen("unix", dir+"/new.sock")
		errs = append(errs,
			refused("socket in "+dir, err, unix.EACCES, unix.EPERM),
			refused("FIFO in "+dir, unix.Mkfifo(dir+"/new.fifo", 0o600), unix.EACCES, unix.EPERM))
	}
	for _, dir := range []string{"/tmp", forage.HomePath, "/run", "/dev/shm", "/var/tmp"} {
		if _, err := net.Listen("unix", dir+"/new.sock"); err != nil {
			errs = append(errs, fmt.Errorf("no socket can be made in %s: %w", dir, err))
		}
	}
	if err := unix.Mkfifo("/tmp/fifo", 0o600); err != nil {
		return err
	}
	errs = append(errs, refused("rename of a FIFO into the workspace", os.Rename("/tmp/fifo", "/workspace/fifo2"), unix.EXDEV, unix.EACCES))
	return errors.Join(errs...)
}

func attackDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		to, readErr := os.Readlink("/proc/self/fd/" + e.Name())
		if readErr != nil || strings.HasPrefix(to, "/proc/") || to == "/dev/null" || strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "anon_inode:") {
			continue
		}
		if strings.HasPrefix(to, "/tmp/") || strings.HasPrefix(to, "socket:") { // made by other attacks
			continue
		}
		err = errors.Join(err, fmt.Errorf("descriptor %s is %s", e.Name(), to))
	}
	return err
}

func attackProgram() error {
	_, err := os.OpenFile(Program, os.O_RDWR, 0)
	_, exe := os.OpenFile("/proc/self/exe", os.O_RDWR, 0)
	f, openErr := os.Open("/proc/self/exe")
	if openErr != nil {
		return openErr
	}
	defer f.Close()
	_, again := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	return errors.Join(
		refused("opening it", err, unix.EROFS, unix.ETXTBSY, unix.EACCES),
		refused("opening the running one", exe, unix.EROFS, unix.ETXTBSY, unix.EACCES),
		refused("reopening it", again, unix.EROFS, unix.ETXTBSY, unix.EACCES),
		refused("removing it", os.Remove(Program), unix.EROFS, unix.EBUSY),
		refused("chmod", unix.Chmod(Program, 0o777), unix.EROFS, unix.EPERM))
}

func attackGit() error {
	return errors.Join(
		refused("a hook", os.WriteFile("/workspace/.git/hooks/post-checkout", nil, 0o755), unix.EROFS),
		refused("config", os.WriteFile("/workspace/.git/config", nil, 0o644), unix.EROFS),
		refused("rename", os.Rename("/workspace/.git", "/workspace/git"), unix.EBUSY),
		refused("exchange", unix.Renameat2(unix.AT_FDCWD, "/workspace/.git", unix.AT_FDCWD, "/workspace/deep", unix.RENAME_EXCHANGE), unix.EBUSY, unix.EPERM, unix.EINVAL),
		refused("remove", os.RemoveAll("/workspace/.git"), unix.EROFS, unix.EBUSY))
}

func attackQuotas() error {
	var errs []error
	var made []int
	defer func() {
		for _, fd := range made {
			unix.Close(fd)
		}
	}()
	for len(made) < 128 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			errs = append(errs, refused("inotify", err, unix.EMFILE))
			break
		}
		made = append(made, fd)
	}
	if len(made) > 64 { // and less where the user has others
		errs = append(errs, fmt.Errorf("%d inotify instances", len(made)))
	}
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core.Max > 1 {
		errs = append(errs, fmt.Errorf("RLIMIT_CORE is %+v (%v)", core, err))
	}
	return errors.Join(errs...)
}

func attackTerminal() error {
	_, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	c := byte('x')
	_, _, sti := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	return errors.Join(refused("/dev/tty", err, unix.ENXIO), refused("TIOCSTI", errnoOrNil(sti), unix.EPERM))
}

func attackNetwork() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(interfaces) != 1 || interfaces[0].Name != "lo" {
		return fmt.Errorf("interfaces: %+v", interfaces)
	}
	for _, kind := range []int{unix.SOCK_RAW, unix.SOCK_DGRAM} {
		fd, err := unix.Socket(unix.AF_PACKET, kind, 0)
		if err == nil {
			unix.Close(fd)
			return errors.New("a packet socket can be made")
		}
	}
	return nil
}
