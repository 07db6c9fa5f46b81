package limits

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"forage"
	"forage/internal/testdir"

	"github.com/godbus/dbus/v5"
)

// TestSystemd starts a real user manager in namespaces, on a real cgroup v2 tree,
// and runs TestBesideSystemd there.
func TestSystemd(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making a place for a manager of its own needs root")
	}
	for _, program := range []string{"/lib/systemd/systemd", "busctl", "dbus-daemon", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := cgroup2(t)
	self, err := os.Executable()
	testdir.Must(t, err)
	folder, err := os.Open(dir)
	testdir.Must(t, err)
	defer folder.Close()
	runtimeDir, err := os.MkdirTemp("", "systemd") // short: it holds a socket
	testdir.Must(t, err)
	defer os.RemoveAll(runtimeDir)
	cmd := exec.Command("unshare", "--mount", "--cgroup", "--pid", "--fork", "--mount-proc", "--kill-child",
		"sh", "testdata/systemd.sh", runtimeDir, self, "-test.run=^TestBesideSystemd$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "FORAGE_BESIDE_SYSTEMD=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd()), Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestBesideSystemd") {
		t.Errorf("%v\n%s", err, out)
	}
}

// asUser is this host as the ordinary user whose manager runs beside. Its tree has
// no controllers, so files that show a limit are read from files, if it is given.
func asUser(files map[string]string) Environment {
	env := Host()
	env.UID = 1000
	env.ReadFile = func(path string) ([]byte, error) {
		if path == "/proc/1/comm" {
			return []byte("systemd\n"), nil
		}
		if s, ok := files[filepath.Base(path)]; ok {
			return []byte(s), nil
		}
		return os.ReadFile(path)
	}
	return env
}

func TestBesideSystemd(t *testing.T) {
	if os.Getenv("FORAGE_BESIDE_SYSTEMD") == "" {
		t.Skip("started by TestSystemd")
	}
	l := forage.Limits{MemoryMax: 100 << 20, CPUQuota: 150}
	t.Run("no controllers", func(t *testing.T) { besideWithout(t, l) })
	t.Run("life", func(t *testing.T) { besideLife(t, l) })
	t.Run("own", besideOwn)
}

func besideOwn(t *testing.T) {
	env := asUser(nil)
	cmd, _, _ := child(t, "stay")
	if ok, err := OwnScope(env, "box", cmd.Process.Pid); !ok || err != nil {
		t.Fatalf("OwnScope = %v, %v", ok, err)
	}
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cgroup"); !strings.Contains(string(b), "/firefly-supervisor-box.scope") {
		t.Errorf("it is in %q, %v", b, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// A manager that ignores a limit must not pass for one that enforces it.
func besideWithout(t *testing.T, l forage.Limits) {
	_, trace, err := Detect(asUser(nil), l)
	if !errors.Is(err, forage.ErrUnsupported) || !strings.Contains(forage.Hint(err), "Delegate=") {
		t.Errorf("%v (%v)", err, trace)
	}
	env := asUser(nil)
	s := systemd{env: env, socket: managerSocket(env), mount: "/sys/fs/cgroup"}
	g, err := s.Apply("ignored", l)
	testdir.Must(t, err)
	cmd, _, _ := child(t, "stay")
	if err := g.Add(cmd.Process.Pid); !errors.Is(err, forage.ErrUnsupported) || !strings.Contains(err.Error(), "memory.max") {
		t.Errorf("the scope has no limits, but: %v", err)
	}
	if cmd.Wait() == nil {
		t.Error("the process was not killed")
	}
}

func besideLife(t *testing.T, l forage.Limits) {
	env := asUser(map[string]string{
		"cgroup.controllers": "cpu memory", "memory.max": "104857600\n", "cpu.max": "150000 100000\n",
	})
	enforcer, trace, err := Detect(env, l)
	if _, ok := enforcer.(systemd); !ok {
		t.Fatalf("%v, %v (%v)", enforcer, err, trace)
	}
	g, err := enforcer.Apply("life", l)
	testdir.Must(t, err)
	first, _, _ := child(t, "stay")
	testdir.Must(t, g.Add(first.Process.Pid))
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(first.Process.Pid) + "/cgroup"); !strings.Contains(string(b), "/forage-life.scope") {
		t.Errorf("it is in %q, %v", b, err)
	}
	for name, want := range map[string]uint64{"MemoryMax": 100 << 20, "MemorySwapMax": 0, "CPUQuotaPerSecUSec": 1_500_000} {
		if got := scopeProperty(t, env, "forage-life.scope", name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	again, err := enforcer.Apply("life", l)
	testdir.Must(t, err)
	third, _, _ := child(t, "stay")
	if err := again.Add(third.Process.Pid); err == nil {
		t.Error("a scope in use was taken over")
	}
	for range 2 {
		testdir.Must(t, removeScope(env, strings.TrimPrefix(g.Ref(), refSystemd)))
	}
	if first.Wait() == nil {
		t.Error("the process was not killed")
	}
}

// scopeProperty asks systemd what it made of a limit.
func scopeProperty(t *testing.T, env Environment, unit, name string) uint64 {
	t.Helper()
	conn, err := dbus.Connect("unix:path=" + managerSocket(env))
	testdir.Must(t, err)
	defer conn.Close()
	m := &busManager{conn}
	var path dbus.ObjectPath
	testdir.Must(t, m.call(context.Background(), "GetUnit", []any{&path}, unit))
	v, err := conn.Object(busName, path).GetProperty(busName + ".Scope." + name)
	testdir.Must(t, err)
	return v.Value().(uint64)
}
