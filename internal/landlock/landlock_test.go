package landlock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

func TestPlan(t *testing.T) {
	const scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	for _, tc := range []struct {
		name        string
		o           Options
		abi, errata int
		want        Active
		fs, scoped  uint64
		notes       int
	}{
		{"no Landlock", Options{}, 0, 0, Active{}, 0, 0, 1},
		{"5.13", Options{}, 1, 0, Active{ABI: 1}, 0, 0, 2},
		{"5.19", Options{}, 2, 0, Active{ABI: 2, Files: true}, files, 0, 1},
		{"6.12 unfixed", Options{}, 6, 0, Active{ABI: 6, Files: true, AbstractSockets: true}, files, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, 1},
		{"6.12", Options{}, 6, 3, Active{ABI: 6, Files: true, AbstractSockets: true, Signals: true}, files, scopes, 0},
		{"nested", Options{NestedNamespaces: true}, 7, 7, Active{ABI: 7, AbstractSockets: true, Signals: true}, 0, scopes, 1},
		{"newest", Options{}, 12, 7, Active{ABI: 12, Files: true, Connect: true, AbstractSockets: true, Signals: true},
			files | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, scopes, 0},
	} {
		got, attr := plan(tc.o, tc.abi, tc.errata)
		if len(got.Notes) != tc.notes {
			t.Errorf("%s: notes %q", tc.name, got.Notes)
		}
		got.Notes = nil
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		if attr.Handled_access_fs != tc.fs || attr.Scoped != tc.scoped {
			t.Errorf("%s: asks for %+v", tc.name, attr)
		}
	}
}

// The tests run this binary again and confine one thread of it; roleEnv says
// which options, and the agent's folders are below dirEnv.
const (
	roleEnv = "FORAGE_LANDLOCK_TEST"
	dirEnv  = "FORAGE_LANDLOCK_DIR"
)

func TestMain(m *testing.M) {
	runtime.LockOSThread() // no test then runs on the first thread
	if os.Getenv(roleEnv) == "first" {
		done := make(chan int)
		go func() { done <- m.Run() }()
		if f, ok := <-onFirst; ok {
			f()
		}
		os.Exit(<-done)
	}
	os.Exit(m.Run())
}

// onFirst carries what shall run on the first thread.
var onFirst = make(chan func())

func respawn(t *testing.T, test, role, dir string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

func TestConfine(t *testing.T) {
	if active := Available(Options{}); !active.Signals {
		t.Skipf("Landlock ABI %d: %q", active.ABI, active.Notes)
	}
	for _, role := range []string{"plain", "nested"} {
		dir := testdir.Plain(t)
		for _, folder := range []string{"tmp", "workspace", "workspace/a", "workspace/b"} {
			testdir.Must(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
		}
		testdir.Must(t, errors.Join(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), unix.Mkfifo(filepath.Join(dir, "given"), 0o600)))
		if out := respawn(t, "TestSpawner", role, dir); !strings.Contains(out, "--- PASS: TestAgent") {
			t.Errorf("the agent did not run\n%s", out)
		}
	}
}

// TestSpawner is PID 1: one of its threads is confined and starts the agent.
func TestSpawner(t *testing.T) {
	role := os.Getenv(roleEnv)
	if role == "" {
		t.Skip("started by TestConfine")
	}
	abstract := fmt.Sprintf("@forage-landlock-%d", os.Getpid())
	ln, err := net.Listen("unix", abstract)
	testdir.Must(t, err)
	defer ln.Close()
	done := make(chan string)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		dir := os.Getenv(dirEnv)
		o := Options{Sockets: []string{dir + "/tmp", dir + "/missing"}, Writable: []string{"/dev", dir + "/tmp", dir + "/workspace", dir + "/given"}, NestedNamespaces: role == "nested"}
		active, err := Confine(o)
		if err != nil {
			t.Error(err)
		}
		testdir.Same(t, "doctor would say otherwise", Available(o), active)
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestAgent$", "-test.v", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), roleEnv+"="+role, "ABSTRACT="+abstract)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("agent: %v\n%s", err, out)
		}
		done <- string(out)
	}()
	fmt.Println(<-done)
	// The other threads are as they were: PID 1 may do all this.
	if err := unix.Mkfifo(filepath.Join(os.Getenv(dirEnv), "workspace/ours"), 0o600); err != nil {
		t.Errorf("PID 1 is confined too: %v", err)
	}
}

// TestAgent is what the confined thread starts.
func TestAgent(t *testing.T) {
	dir := os.Getenv(dirEnv)
	if dir == "" || os.Getenv("ABSTRACT") == "" {
		t.Skip("started by TestSpawner")
	}
	nested := os.Getenv(roleEnv) == "nested"
	expect := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	expect("signal to PID 1", unix.Kill(os.Getppid(), 0), unix.EPERM)
	expect("thread signal to PID 1", unix.Tgkill(os.Getppid(), os.Getppid(), 0), unix.EPERM)
	expect("signal to ourselves", unix.Kill(os.Getpid(), 0), nil)
	child := exec.Command("sleep", "60")
	expect("a child", child.Start(), nil)
	expect("signal to a child", child.Process.Kill(), nil)
	child.Wait()
	_, err := net.Dial("unix", os.Getenv("ABSTRACT"))
	expect("abstract socket of PID 1", err, unix.EPERM)

	denied := error(unix.EACCES)
	if nested {
		denied = nil
	}
	work, tmp := dir+"/workspace", dir+"/tmp"
	listen := func(path string) error {
		ln, err := net.Listen("unix", path)
		if err == nil {
			ln.(*net.UnixListener).SetUnlinkOnClose(false)
			ln.Close()
		}
		return err
	}
	written := func(path string) error {
		fd, err := unix.Open(path, unix.O_RDWR, 0)
		unix.Close(fd)
		return err
	}
	expect("writing to a FIFO of the host's", written(dir+"/fifo"), denied)
	expect("writing to one that is given", written(dir+"/given"), nil)
	expect("writing to a device", written("/dev/null"), nil)
	expect("FIFO in the workspace", unix.Mkfifo(work+"/fifo", 0o600), denied)
	expect("FIFO by mknod", unix.Mknod(work+"/a/fifo", unix.S_IFIFO|0o600, 0), denied)
	expect("socket in the workspace", listen(work+"/sock"), denied)
	expect("socket node", unix.Mknod(work+"/a/node", unix.S_IFSOCK|0o600, 0), denied)
	expect("socket in /tmp", listen(tmp+"/sock"), nil)
	expect("FIFO in /tmp", unix.Mkfifo(tmp+"/fifo", 0o600), nil)
	c, err := net.Dial("unix", tmp+"/sock")
	if err == nil {
		c.Close()
	} else if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("connecting in /tmp: %v", err)
	}
	if nested {
		return
	}
	// What may be made in one place must not be moved to the other.
	expect("FIFO moved in", os.Rename(tmp+"/fifo", work+"/fifo"), unix.EACCES)
	expect("FIFO linked in", os.Link(tmp+"/fifo", work+"/fifo"), unix.EACCES)
	expect("socket moved in", os.Rename(tmp+"/sock", work+"/sock"), unix.EACCES)
	expect("a file", os.WriteFile(work+"/a/file", nil, 0o644), nil)
	expect("FIFO exchanged in", unix.Renameat2(unix.AT_FDCWD, tmp+"/fifo", unix.AT_FDCWD, work+"/a/file", unix.RENAME_EXCHANGE), unix.EACCES)
	// A workspace must stay a workspace.
	expect("rename between folders", os.Rename(work+"/a/file", work+"/b/file"), nil)
	expect("link between folders", os.Link(work+"/b/file", work+"/a/again"), nil)
	expect("rename of a folder", os.Rename(work+"/b", work+"/a/b"), nil)
	expect("into /tmp", os.Rename(work+"/a/again", tmp+"/again"), nil)
}

// On the first thread a domain would stand for the whole process.
func TestFirstThreadIsRefused(t *testing.T) {
	if os.Getenv(roleEnv) != "first" {
		respawn(t, "TestFirstThreadIsRefused", "first", "/")
		return
	}
	onFirst <- func() {
		if _, err := Confine(Options{}); err == nil {
			t.Error("the first thread was confined")
		}
		close(onFirst)
	}
	<-onFirst
}
