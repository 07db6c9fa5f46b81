package jail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// roleEnv makes this program the hostile one; prey, in JSON, is what it goes for.
const (
	roleEnv = "FORAGE_JAIL_TEST"
	preyEnv = "FORAGE_JAIL_PREY"
)

type prey struct {
	Bare     bool   // there is no jail
	Secret   string // a file that only the caller may read
	Outside  string // a folder that the caller may write to
	Given    string // a folder that is visible; link in it leads to Secret
	TCP      string
	Abstract string
	Socket   string
	Process  int
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "attack":
		var p prey
		if err := json.Unmarshal([]byte(os.Getenv(preyEnv)), &p); err != nil {
			panic(err)
		}
		for _, a := range p.attacks() {
			if !p.Bare || slices.Contains(bare, a.name) {
				fmt.Printf("%s: %v\n", a.name, a.do())
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attacker makes c this program, in that role.
func attacker(t *testing.T, role string, c Command) Command {
	t.Helper()
	self, err := os.Executable()
	testdir.Must(t, err)
	c.Args = []string{self}
	c.Env = append(c.Env, roleEnv+"="+role)
	c.ReadOnly = append(c.ReadOnly, self)
	return c
}

// attack is an attempt; nil is that it succeeded. None may harm the machine: as root, a jail that
// doesn't hold lets it pass.
type attack struct {
	name string
	do   func() error
}

// bare are the attacks that any process may make; no others are made outside of a jail.
var bare = []string{
	"read secret", "read by link", "list /home", "list /proc", "write outside", "write given", "write /tmp", "TCP", "abstract socket", "socket",
	"own socket", "netlink", "signal", "process", "environment", "descriptors", "new privileges", "another root above",
}

var errNotThere = errors.New("not there")

func (p prey) attacks() []attack {
	read := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	list := func(path string) func() error {
		return func() error { _, err := os.ReadDir(path); return err }
	}
	create := func(dir string) func() error {
		return func() error {
			path := dir + "/forage-jail-was-here"
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Remove(path)
		}
	}
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.Dial(network, address)
			if err == nil {
				c.Close()
			}
			return err
		}
	}
	call := func(nr uintptr, args ...uintptr) func() error {
		args = append(args, make([]uintptr, 6)...)
		return func() error {
			runtime.LockOSThread()
			if _, _, errno := unix.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
				return errno
			}
			return nil
		}
	}
	process := uintptr(p.Process)
	return []attack{
		{"read secret", read(p.Secret)}, {"read by link", read(p.Given + "/link")}, {"read through ..", read("/../../../.." + p.Secret)},
		{"list /root", list("/root")}, {"list /home", list("/home")}, {"read /etc/shadow", read("/etc/shadow")}, {"read /etc/passwd", read("/etc/passwd")},
		{"list /proc", list("/proc")}, {"list /sys", list("/sys")}, {"read own memory", read("/proc/self/environ")},
		{"write outside", create(p.Outside)}, {"write given", create(p.Given)}, {"write /", create("/")}, {"write /dev", create("/dev")},
		{"write /usr", create("/usr")}, {"write /tmp", create("/tmp")}, {"write /dev/shm", create("/dev/shm")},
		{"TCP", dial("tcp", p.TCP)}, {"UDP", dial("udp", p.TCP)}, {"abstract socket", dial("unix", p.Abstract)}, {"socket", dial("unix", p.Socket)},
		{"own socket", call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM)}, {"netlink", call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW)},
		{"vsock", call(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM)}, {"packets", call(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW)},
		{"signal", call(unix.SYS_KILL, process, 0)}, {"trace", call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, process)},
		{"process", call(unix.SYS_PIDFD_OPEN, process)}, {"limits of others", call(unix.SYS_PRLIMIT64, process, unix.RLIMIT_CORE)},
		{"mount", func() error { return unix.Mount("none", p.Given, "tmpfs", 0, "") }},
		{"remount", func() error { return unix.Mount("", p.Given, "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"unmount", func() error { return unix.Unmount(p.Given, unix.MNT_DETACH) }},
		{"writable again", func() error {
			return unix.MountSetattr(unix.AT_FDCWD, p.Given, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		{"user namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)}, {"mount namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWNS)},
		{"setns", call(unix.SYS_SETNS, 0, 0)}, {"chroot", func() error { return unix.Chroot("/usr") }},
		{"file handle", call(unix.SYS_OPEN_BY_HANDLE_AT)}, {"device", func() error { return unix.Mknod(p.Given+"/device", unix.S_IFCHR|0o600, 0x103) }},
		{"keys", call(unix.SYS_KEYCTL, 0, ^uintptr(2))}, {"bpf", call(unix.SYS_BPF)}, {"perf", call(unix.SYS_PERF_EVENT_OPEN)},
		{"io_uring", call(unix.SYS_IO_URING_SETUP)}, {"userfaultfd", call(unix.SYS_USERFAULTFD)}, {"host name", func() error {
			name, err := os.Hostname()
			return errors.Join(err, unix.Sethostname([]byte(name)))
		}},
		{"root", call(unix.SYS_SETUID, 0)}, {"more memory", func() error {
			return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		}},
		{"environment", func() error {
			for _, v := range os.Environ() {
				if strings.Contains(v, "forage-test-secret") {
					return nil
				}
			}
			return errNotThere
		}},
		{"descriptors", openDescriptor}, {"capabilities", anyCapability},
		{"new privileges", func() error {
			if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); n == 1 && err == nil {
				return errNotThere
			}
			return nil
		}},
		{"another root above", func() error {
			if names, err := filepath.Glob("/../*"); err != nil || !slices.Contains(names, "/home") && !slices.Contains(names, "/../home") {
				return errNotThere
			}
			return nil
		}},
	}
}

// openDescriptor finds a descriptor that was inherited and is a plain file or folder.
func openDescriptor() error {
	for fd := 0; fd < 1024; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
			return nil
		}
	}
	return errNotThere
}

func anyCapability() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&has[0])), 0); errno != 0 {
		return errno
	}
	if has == [2]unix.CapUserData{} {
		return errNotThere
	}
	return nil
}

// A program that was taken over gets nothing.
func TestEscape(t *testing.T) {
	p := hunt(t)
	text, err := json.Marshal(p)
	testdir.Must(t, err)
	t.Setenv("SECRET", "forage-test-secret")
	inherited, err := unix.Open(p.Secret, unix.O_RDONLY, 0) // without close-on-exec
	testdir.Must(t, err)
	defer unix.Close(inherited)

	// Without the jail these attacks succeed, so they are real.
	self, err := os.Executable()
	testdir.Must(t, err)
	outside := exec.Command(self)
	outside.Env = append(os.Environ(), roleEnv+"=attack", preyEnv+"="+string(text))
	out, err := outside.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := bytes.Count(out, []byte(": <nil>\n")); n != len(bare) {
		t.Errorf("%d of %d attacks succeed outside\n%s", n, len(bare), out)
	}

	p.Bare = false
	if text, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	inside, err := output(t, attacker(t, "attack", Command{Env: []string{preyEnv + "=" + string(text)}, ReadOnly: []string{p.Given}}))
	if err != nil {
		t.Fatalf("%v\n%s", err, inside)
	}
	lines := strings.Split(strings.TrimSpace(inside), "\n")
	if len(lines) != len(p.attacks()) {
		t.Errorf("%d attacks of %d were made", len(lines), len(p.attacks()))
	}
	for _, line := range lines {
		if strings.HasSuffix(line, "<nil>") {
			t.Errorf("escaped: %s", line)
		}
	}
	if testing.Verbose() {
		t.Log(inside)
	}
}

// hunt lays out what the attacker goes for.
func hunt(t *testing.T) prey {
	t.Helper()
	p := prey{Bare: true, Outside: folder(t), Given: folder(t), Abstract: fmt.Sprintf("@forage-jail-%d", os.Getpid())}
	p.Secret, p.Socket = p.Outside+"/secret", p.Outside+"/socket"
	testdir.Must(t, errors.Join(os.WriteFile(p.Secret, []byte("secret"), 0o600), os.Symlink(p.Secret, p.Given+"/link")))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	testdir.Must(t, err)
	p.TCP = tcp.Addr().String()
	abstract, err1 := net.Listen("unix", p.Abstract)
	inGiven, err2 := net.Listen("unix", p.Given+"/socket") // a socket in what is visible is none to talk to
	p.Socket = p.Given + "/socket"
	victim := exec.Command("sleep", "1000")
	victim.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testdir.Must(t, errors.Join(err1, err2, victim.Start()))
	p.Process = victim.Process.Pid
	t.Cleanup(func() {
		victim.Process.Kill()
		victim.Wait()
		for _, l := range []net.Listener{tcp, abstract, inGiven} {
			l.Close()
		}
	})
	return p
}
