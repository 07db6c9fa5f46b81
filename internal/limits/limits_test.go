package limits

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"forage"
	"forage/internal/testdir"

	"golang.org/x/sys/unix"
)

// roleEnv makes this binary a process to be bounded.
const roleEnv = "FORAGE_LIMITS_TEST"

func TestMain(m *testing.M) {
	var go1 [1]byte
	switch os.Getenv(roleEnv) {
	case "memory": // takes 256 MiB, once told to begin
		os.Stdin.Read(go1[:])
		b := make([]byte, 256<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		fmt.Print("got it")
		os.Exit(0)
	case "spin": // burns a processor for a second of the clock
		os.Stdin.Read(go1[:])
		for begin := time.Now(); time.Since(begin) < time.Second; {
		}
		var usage unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &usage)
		fmt.Print((time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Milliseconds())
		os.Exit(0)
	case "stay": // ignores what can be ignored, with a child that does too
		cmd := exec.Command("sh", "-c", "trap '' TERM HUP INT; echo up; while :; do sleep 1000; done")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.Stdout = os.Stdout
		cmd.Run()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts this binary in a role and returns it with its output.
func child(t *testing.T, role string) (*exec.Cmd, *os.File, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	var out bytes.Buffer
	if role != "stay" {
		cmd.Stdout = &out
	}
	r, w, err := os.Pipe()
	testdir.Must(t, err)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that a child of it can be ended too
	testdir.Must(t, cmd.Start())
	r.Close()
	t.Cleanup(func() { w.Close(); syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return cmd, w, &out
}

// testName is a sandbox name that no other test uses.
func testName(t *testing.T) string {
	return "test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
}

// realV1 is the enforcer of this host, if that is cgroup v1 as root.
func realV1(t *testing.T, l forage.Limits) Enforcer {
	t.Helper()
	enforcer, trace, err := Detect(Host(), l)
	if err != nil {
		t.Skipf("not here: %v", err)
	}
	if _, ok := enforcer.(legacy); !ok {
		t.Logf("%v (%v)", enforcer, trace)
	}
	return enforcer
}

func TestNothingWanted(t *testing.T) {
	for _, l := range []forage.Limits{{}, {TasksMax: 5, DiskMax: 1 << 30, WallClock: time.Hour}} {
		if enforcer, err := Find(l); enforcer != nil || err != nil {
			t.Errorf("%+v: %v, %v", l, enforcer, err)
		}
	}
}

func TestMemory(t *testing.T) {
	l := forage.Limits{MemoryMax: 64 << 20}
	g, err := realV1(t, l).Apply(testName(t), l)
	testdir.Must(t, err)
	defer g.Remove()
	cmd, begin, out := child(t, "memory")
	testdir.Must(t, g.Add(cmd.Process.Pid))
	begin.Close()
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("%v, and it said %q", err, out)
	}
}

func TestCPU(t *testing.T) {
	l := forage.Limits{CPUQuota: 20}
	g, err := realV1(t, l).Apply(testName(t), l)
	testdir.Must(t, err)
	defer g.Remove()
	cmd, begin, out := child(t, "spin")
	testdir.Must(t, g.Add(cmd.Process.Pid))
	begin.Close()
	testdir.Must(t, cmd.Wait())
	if spent, err := strconv.Atoi(out.String()); err != nil || spent > 400 {
		t.Errorf("%v ms of a second at 20 percent, %v", out, err)
	}
}

func TestRemoveKillsAndIsIdempotent(t *testing.T) {
	l := forage.Limits{MemoryMax: 64 << 20, CPUQuota: 100}
	enforcer := realV1(t, l)
	name := testName(t)
	g, err := enforcer.Apply(name, l)
	testdir.Must(t, err)
	defer g.Remove()
	cmd, _, _ := child(t, "stay")
	testdir.Must(t, g.Add(cmd.Process.Pid))
	if _, err := enforcer.Apply(name, l); err == nil || forage.Hint(err) == "" {
		t.Errorf("a group in use was taken over: %v", err)
	}
	for range 2 { // by the name alone, and again
		testdir.Must(t, Remove(g.Ref()))
	}
	if err := cmd.Wait(); err == nil {
		t.Error("its process was not killed")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	// A leftover in which nothing runs is replaced.
	for range 2 {
		if g, err = enforcer.Apply(name, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func TestApplyTakesNamesOnly(t *testing.T) {
	l := forage.Limits{MemoryMax: 1 << 30}
	for _, e := range []Enforcer{unified{t.TempDir()}, legacy{"memory": t.TempDir()}, systemd{}} {
		if g, err := e.Apply("../escape", l); g != nil || !errors.Is(err, forage.ErrUsage) {
			t.Errorf("%v: %v, %v", e, g, err)
		}
	}
}

func TestApplyUndoes(t *testing.T) {
	l := forage.Limits{MemoryMax: 1 << 20, CPUQuota: 1 << 40} // more than the kernel takes
	enforcer := realV1(t, l)
	name := testName(t)
	if g, err := enforcer.Apply(name, l); err == nil {
		g.Remove()
		t.Fatal("applied")
	}
	l.CPUQuota = 100
	if g, err := enforcer.Apply(name, l); err != nil {
		t.Error("half a group was left")
	} else if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// cgroup2 is a folder of a real cgroup v2 tree, which may have no controllers.
func cgroup2(t *testing.T) string {
	t.Helper()
	hierarchies, err := Host().hierarchies()
	testdir.Must(t, err)
	h, ok := unifiedMount(hierarchies)
	if !ok || !Host().Writable(h.own) {
		t.Skip("no writable cgroup v2 here")
	}
	dir, err := os.MkdirTemp(h.own, "test-")
	testdir.Must(t, err)
	t.Cleanup(func() {
		if err := removeFolder(dir); err != nil { // which waits for what has ended to leave it
			t.Error(err)
		}
	})
	return dir
}

// The life of a v2 group, without settings: the controllers may be elsewhere.
func TestUnifiedLife(t *testing.T) {
	u := unified{cgroup2(t)}
	g, err := u.Apply("life", forage.Limits{})
	testdir.Must(t, err)
	cmd, _, _ := child(t, "stay")
	testdir.Must(t, g.Add(cmd.Process.Pid))
	b, err := os.ReadFile(filepath.Join(u.parent, "forage-life", "cgroup.procs"))
	if err != nil || !strings.Contains(string(b), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("%d is not among %q, %v", cmd.Process.Pid, b, err)
	}
	// The agent's own groups below go too.
	testdir.Must(t, os.Mkdir(filepath.Join(u.parent, "forage-life", "inner"), 0o755))
	for range 2 {
		testdir.Must(t, g.Remove())
	}
	if cmd.Wait() == nil {
		t.Error("the process was not killed")
	}
}

func TestRemoveRefusesWhatIsNotOurs(t *testing.T) {
	dir := cgroup2(t)
	other := filepath.Join(dir, "other")
	testdir.Must(t, os.Mkdir(other, 0o755))
	for _, ref := range []string{
		"cgroup:" + other, "cgroup:forage-relative", "cgroup:/", "cgroup:", "systemd:sshd.service", "systemd:forage-../x.scope", "x",
	} {
		if err := Remove(ref); err == nil {
			t.Errorf("%q was removed", ref)
		}
	}
	if err := Remove(""); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
