package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
	"forage/internal/testgit"
	"forage/internal/testprogram"
)

// patience bounds every wait for something that has to happen.
const patience = 4 * time.Minute

var program string // the built forage-ctl

func TestMain(m *testing.M) {
	// Orphans become this process's children, so that none gets out of sight.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(testprogram.Main(m, &program))
}

// world is one user's Forage: folders of its own and a workspace whose files are counted.
type world struct {
	t                           *testing.T
	base                        string // everything else is in it
	state, runtime, home, files string
	repository                  string // of git, with one commit
	ports                       int    // first of five
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	testdir.Must(t, err)
	w := &world{t: t, base: base, state: filepath.Join(base, "state"), runtime: filepath.Join(base, "run"), home: filepath.Join(base, "home"), files: filepath.Join(base, "files")}
	for _, dir := range []string{w.home, w.files} {
		testdir.Must(t, os.Mkdir(dir, 0o755))
	}
	w.ports = testdir.Ports(t, 5)
	config := fmt.Sprintf("portRange = { from = %d, to = %d }\n", w.ports, w.ports+4)
	testdir.Must(t, os.WriteFile(filepath.Join(w.home, "config.toml"), []byte(config), 0o600))
	for i := range 50 {
		testdir.Must(t, os.WriteFile(filepath.Join(w.files, "file"+strconv.Itoa(i)), []byte(strings.Repeat("work", i)), 0o644))
	}
	repository := testgit.Init(t, base)
	repository.Commit("file", "text")
	w.repository = repository.Dir
	t.Cleanup(func() { w.killAll() })
	return w
}

// command is forage-ctl with args, not started yet.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.files
	cmd.Env = []string{
		"HOME=" + w.home, "PATH=/usr/bin:/bin", "FORAGE_CONFIG=" + filepath.Join(w.home, "config.toml"),
		"FORAGE_STATE_DIR=" + w.state, "FORAGE_RUNTIME_DIR=" + w.runtime,
	}
	return cmd
}

// run runs forage-ctl to its end.
func (w *world) run(args ...string) (exit int, output string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGQUIT) })
	defer stop()
	err := cmd.Wait()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		w.t.Fatal(err)
	}
	if ctx.Err() != nil {
		w.t.Fatalf("forage-ctl %q hung:\n%s", args, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (w *world) must(args ...string) string {
	w.t.Helper()
	exit, out := w.run(args...)
	if exit != 0 {
		w.t.Fatalf("forage-ctl %q: exit %d\n%s", args, exit, out)
	}
	return out
}

// interrupt starts forage-ctl and kills it after delay, if it is still there.
func (w *world) interrupt(delay time.Duration, args ...string) {
	w.t.Helper()
	cmd := w.command(args...)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	timer := time.AfterFunc(delay, func() { cmd.Process.Kill() })
	cmd.Wait()
	timer.Stop()
}

type status struct {
	Name, Status string
	GuestPID     int
}

func (w *world) statuses() []status {
	w.t.Helper()
	var all []status
	out := w.must("ps", "-o", "json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return all
}

// processes are this test's descendants that were left to it by their parents,
// and that still run.
func processes() []int {
	var found []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // proc_pid_stat(5): state, ppid
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && fields[0] != "Z" {
			found = append(found, pid)
		}
	}
	return found
}

// reap takes away the orphans that have ended.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (w *world) killAll() {
	for _, pid := range processes() {
		unix.Kill(pid, unix.SIGKILL)
	}
	w.await("the end of what was killed", func() bool { return len(processes()) == 0 })
	reap()
}

// supervisors are the detached supervisors of this world.
func (w *world) supervisors() []int {
	return slices.DeleteFunc(processes(), func(pid int) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !strings.HasPrefix(string(text), "forage-ctl\x00supervisor")
	})
}

func (w *world) await(what string, met func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// clean fails the test unless nothing is left but what the user keeps.
func (w *world) clean() {
	w.t.Helper()
	w.await("every process to end", func() bool { return len(processes()) == 0 })
	reap()
	for _, dir := range []string{w.runtime, filepath.Join(w.state, "sandboxes"), filepath.Join(w.state, "locks")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			w.t.Fatal(err)
		}
		for _, entry := range entries {
			kept := strings.HasPrefix(entry.Name(), "run-") || // a run's audit log stays
				strings.HasPrefix(entry.Name(), ".tmp-") // until they are old
			if dir == w.runtime {
				kept = entry.Name() == ".scratch" // what killed processes left there goes when it is old
			}
			if !kept {
				w.t.Errorf("%s is left in %s", entry.Name(), dir)
			}
		}
	}
	w.intact()
	w.repositoryIsClean()
}

// repositoryIsClean fails the test if anything of a sandbox is left in the repository, or in our
// places for one.
func (w *world) repositoryIsClean() {
	w.t.Helper()
	for _, command := range [][]string{{"for-each-ref", "--format=%(refname)"}, {"worktree", "list", "--porcelain"}, {"status", "--porcelain"}, {"fsck", "--strict"}} {
		cmd := exec.Command("git", command...)
		cmd.Dir, cmd.Env = w.repository, testgit.Environ(w.home)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "refs/heads/forage-") || strings.Contains(string(out), "refs/forage/") || strings.Contains(string(out), w.state) || command[0] == "status" && len(out) > 0 {
			w.t.Errorf("git %q in the repository: %v\n%s", command, err, out)
		}
	}
	for _, dir := range []string{"workspaces", "repositories"} {
		entries, err := os.ReadDir(filepath.Join(w.state, dir))
		if err != nil && !os.IsNotExist(err) {
			w.t.Error(err)
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") {
				w.t.Errorf("%s is left in %s", entry.Name(), dir)
			}
		}
	}
}

// intact fails the test unless the workspace's files are what they were.
func (w *world) intact() {
	w.t.Helper()
	for i := range 50 {
		text, err := os.ReadFile(filepath.Join(w.files, "file"+strconv.Itoa(i)))
		if err != nil || string(text) != strings.Repeat("work", i) {
			w.t.Errorf("file%d of the workspace was lost: %d bytes, %v", i, len(text), err)
		}
	}
}

// mounted are the mounts where this test runs, as far as they are in the world: others come and go
// with other tests.
func (w *world) mounted() []string {
	w.t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	var points []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if point := strings.Fields(line)[4]; strings.HasPrefix(point, w.base) {
			points = append(points, point)
		}
	}
	return points
}

// descendants are the children of a process.
func descendants(parent int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
