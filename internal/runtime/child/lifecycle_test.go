package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/runtime"
	"forage/internal/unixsock"
)

func sleeping() script { return script{Argv: []string{"/bin/sh", "-c", "sleep 1000"}} }

func TestStop(t *testing.T) {
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	all := descendants(i.PID())
	if i.Err() != nil {
		t.Error("an error while it runs")
	}
	for range 2 {
		must(t, i.Stop(t.Context(), 0))
	}
	<-i.Done()
	if err := i.Err(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	if anyLives(all) {
		t.Error("something still runs")
	}
	if _, err := os.Stat(statePath(i.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state is left: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if strings.Contains(string(mounts), filepath.Dir(t.TempDir())) { // below our temporary folders: others come and go with other tests
		t.Errorf("mounts are left:\n%s", mounts)
	}
}

// TestStopGrace: the guest of these tests ends when it is told anything.
func TestStopGrace(t *testing.T) {
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, i.Stop(ctx, time.Hour))
	if ctx.Err() != nil {
		t.Error("Stop waited although the guest had ended")
	}
}

// TestStopDeaf: a guest that is stopped, and so deaf, is killed after the grace.
func TestStopDeaf(t *testing.T) {
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	must(t, unix.Kill(i.PID(), unix.SIGSTOP))
	waitFor(t, "the guest to be stopped", func() bool { return stoppedWhole(i.PID()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begun := time.Now()
	must(t, i.Stop(ctx, 50*time.Millisecond))
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("it was killed after %v, before its time was up", took)
	}
}

// stoppedWhole says whether every thread of a process is stopped (proc_pid_stat(5), state T).
func stoppedWhole(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		if _, rest, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// TestNotDumpable: the files of a process that is not dumpable belong to root on the host
// (proc(5)), for any user.
func TestNotDumpable(t *testing.T) {
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Stat(fmt.Sprintf("/proc/%d/environ", i.PID()), &st))
	if st.Uid != 0 {
		t.Errorf("the guest's memory belongs to user %d", st.Uid)
	}
}

func TestGuestKilled(t *testing.T) {
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	must(t, unix.Kill(i.PID(), unix.SIGKILL))
	<-i.Done()
	if err := i.Err(); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("%v", err)
	}
	if _, _, err := i.Control().Receive(); err == nil {
		t.Error("the channel still answers")
	}
}

// TestDescriptorsOutlive: a guest can have what it has open outlive it, in a message that is never
// received. Neither its channel nor what it says on standard error is waited for then.
func TestDescriptorsOutlive(t *testing.T) {
	spec, run := baseSpec(t, makeTree(t)), t.TempDir()
	i, err := boxedIn(t, run, spec, script{Argv: []string{"/bin/sh", "-c", "echo started"}, Leak: true})
	must(t, err)
	defer i.Egress().Close()
	defer i.Control().Close()
	conn, err := unixsock.Dial(t.Context(), filepath.Join(i.dir, "ssh.sock")) // which reads nothing
	must(t, err)
	defer conn.Close()
	if got := answer(t, i); got.Out != "started\n" {
		t.Fatalf("got %+v", got)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := i.Control().Receive()
		ended <- err
	}()
	i.process.kill()
	patience := time.After(5 * time.Minute)
	select {
	case <-i.Done():
	case <-patience:
		t.Fatal("its end is waited for in vain")
	}
	select {
	case err := <-ended:
		if !errors.Is(err, io.EOF) {
			t.Errorf("the channel ends with %v", err)
		}
	case <-patience:
		t.Error("the channel's end is waited for in vain")
	}
	if err := i.Err(); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("it ended with %v", err)
	}
}

// TestChannelClosed: a guest whose channel ends has lost its supervisor.
func TestChannelClosed(t *testing.T) {
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	i.Control().Close()
	select {
	case <-i.Done():
	case <-time.After(time.Minute):
		t.Error("the guest lives on")
	}
}

func TestDestroy(t *testing.T) {
	run := t.TempDir()
	r := local(run)
	must(t, r.Destroy(t.Context(), "never-was"))
	if err := r.Destroy(t.Context(), "../x"); !errors.Is(err, forage.ErrUsage) {
		t.Errorf("a name that is a path: %v", err)
	}
	i, err := boxedIn(t, run, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	defer i.Control().Close()
	if names, err := r.List(t.Context()); err != nil || fmt.Sprint(names) != "[test]" {
		t.Errorf("%v, %v", names, err)
	}
	must(t, r.Destroy(t.Context(), "test"))
	<-i.Done()
	if names, err := r.List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestDestroyAnothersPid: a pid that has come to mean another process is left alone.
func TestDestroyAnothersPid(t *testing.T) {
	run := t.TempDir()
	other := exec.Command("sleep", "1000")
	must(t, other.Start())
	defer func() { other.Process.Kill(); other.Wait() }()
	dir := filepath.Join(run, "test")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, saveState(dir, state{Runtime: "native", PID: other.Process.Pid}))
	text, err := os.ReadFile(statePath(dir))
	must(t, err)
	start, err := startTime(other.Process.Pid)
	must(t, err)
	changed := strings.Replace(string(text), strconv.FormatUint(start, 10), strconv.FormatUint(start-1, 10), 1)
	must(t, os.WriteFile(statePath(dir), []byte(changed), 0o600))
	must(t, local(run).Destroy(t.Context(), "test"))
	if now, err := startTime(other.Process.Pid); err != nil || now != start {
		t.Errorf("the other process is gone: %v", err)
	}
}

func TestCancelledStart(t *testing.T) {
	run := t.TempDir()
	dir := filepath.Join(run, "test")
	must(t, os.Mkdir(dir, 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := local(run).Start(ctx, runtime.Request{Spec: baseSpec(t, makeTree(t)), Dir: dir, SSH: sshSocket(t, dir)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if names, err := local(run).List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestFailedStep: the step that failed is named, and nothing is left.
func TestFailedStep(t *testing.T) {
	spec := baseSpec(t, makeTree(t))
	spec.Limits.DiskMax = 4096
	_, err := boxed(t, spec, script{})
	if !errors.Is(err, forage.ErrStart) || !strings.Contains(err.Error(), ": no space left on device") {
		t.Errorf("%v", err)
	}
}

// TestNotAGuest: a program that never says anything.
func TestNotAGuest(t *testing.T) {
	run := t.TempDir()
	dir := filepath.Join(run, "test")
	must(t, os.Mkdir(dir, 0o700))
	_, err := New(Config{Name: "native", Namespaces: Clone{}, Dir: run, Self: "/bin/true"}).Start(t.Context(), runtime.Request{Spec: baseSpec(t, makeTree(t)), Dir: dir, SSH: sshSocket(t, dir)})
	if !errors.Is(err, forage.ErrStart) {
		t.Errorf("%v", err)
	}
}

func TestIdentities(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*forage.Identity)
	}{
		{"root inside", func(who *forage.Identity) { who.UID = 0 }},
		{"root's group inside", func(who *forage.Identity) { who.GID = 0 }},
		{"root on the host", func(who *forage.Identity) { who.HostUID = 0 }},
		{"root's group on the host", func(who *forage.Identity) { who.HostGID = 0 }},
	} {
		spec := baseSpec(t, makeTree(t))
		tc.change(&spec.Identity)
		if err := local("").Supports(spec); !errors.Is(err, forage.ErrUnsupported) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestSupportsKernel(t *testing.T) {
	tasks := forage.Spec{Limits: forage.Limits{TasksMax: 5}}
	for _, tc := range []struct {
		running kernelVersion
		spec    forage.Spec
		ok      bool
	}{
		{kernelVersion{4, 20}, forage.Spec{}, false},
		{kernelVersion{5, 13}, forage.Spec{}, false},
		{kernelVersion{5, 14}, tasks, true},
		{kernelVersion{6, 1}, tasks, true},
	} {
		if err := supportsKernel(tc.running, tc.spec); (err == nil) != tc.ok || err != nil && forage.ExitCode(err) != 6 {
			t.Errorf("%v: %v", tc.running, err)
		}
	}
}

// TestDescriptors looks from the host at what PID 1 holds: a descriptor that the parent had
// inherited without close-on-exec must not be among it, nor anything of the host's files.
func TestDescriptors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can look into a process that is not dumpable")
	}
	leak, err := unix.Open("/etc", unix.O_RDONLY|unix.O_DIRECTORY, 0) // no O_CLOEXEC
	must(t, err)
	defer unix.Close(leak)
	i, err := boxed(t, baseSpec(t, makeTree(t)), sleeping())
	must(t, err)
	waitFor(t, "the guest to have started its command: until then it opens folders of the sandbox", func() bool { return len(descendants(i.PID())) > 1 })
	proc := "/proc/" + strconv.Itoa(i.PID())
	entries, err := os.ReadDir(proc + "/fd")
	must(t, err)
	for _, e := range entries {
		to, err := os.Readlink(proc + "/fd/" + e.Name())
		switch {
		case err != nil: // closed since
		case to == "/dev/null", strings.HasPrefix(to, "socket:"), strings.HasPrefix(to, "pipe:"), to == "/memfd:stderr (deleted)", strings.HasPrefix(to, "anon_inode:"):
		case to == "/" && e.Name() != "0": // an O_PATH descriptor within the sandbox
			t.Errorf("descriptor %s is a folder", e.Name())
		default:
			t.Errorf("descriptor %s is %s", e.Name(), to)
		}
	}
	if env, err := os.ReadFile(proc + "/environ"); err != nil || string(env) != strings.Join(guestEnv, "\x00")+"\x00" {
		t.Errorf("the environment is %q, %v", env, err)
	}
	if line, _ := os.ReadFile(proc + "/cmdline"); string(line) != "forage-guest\x00guest\x00" {
		t.Errorf("the command line is %q", line)
	}
	if sid, _ := unix.Getsid(i.PID()); sid != i.PID() {
		t.Errorf("the guest is in session %d, not its own", sid)
	}
}
