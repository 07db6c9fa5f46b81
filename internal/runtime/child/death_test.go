package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// holderName is argv[0] of the test binary as a supervisor that is killed.
const holderName = "forage-holder"

// holdMain starts a sandbox whose agent sleeps, prints the guest's pid and waits.
func holdMain() error {
	t := &testing.T{}
	i, err := boxedIn(t, os.Getenv("RUN"), baseSpec(t, os.Getenv("WORKSPACE")), script{Argv: []string{"/bin/sh", "-c", "sleep 1000 & exec sleep 1001"}})
	if err != nil {
		return err
	}
	fmt.Println(i.PID())
	select {}
}

// TestParentKilled kills the process that holds a sandbox: the sandbox must end
// at once, also when its guest is stopped and so can't notice.
func TestParentKilled(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped %v", stopped), func(t *testing.T) { killParent(t, stopped) })
	}
}

func killParent(t *testing.T, stopped bool) {
	run, workspace := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(run, "test"), 0o700))
	holder := exec.Command("/proc/self/exe")
	holder.Args[0] = holderName
	holder.Env = []string{"RUN=" + run, "WORKSPACE=" + workspace, "TMPDIR=" + t.TempDir()}
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	var all map[int]uint64
	waitFor(t, "the agent to run", func() bool { all = descendants(pid); return len(all) >= 3 })
	if stopped {
		must(t, unix.Kill(pid, unix.SIGSTOP))
		waitFor(t, "the guest to be stopped", func() bool { return stoppedWhole(pid) })
	}
	must(t, holder.Process.Kill())
	holder.Wait()
	waitFor(t, "the sandbox to end", func() bool { return !anyLives(all) })

	// What is left on the host is known, and goes.
	r := local(run)
	names, err := r.List(t.Context())
	if err != nil || len(names) != 1 || names[0] != "test" {
		t.Errorf("List: %v, %v", names, err)
	}
	for range 2 {
		must(t, r.Destroy(t.Context(), "test"))
	}
	if names, err := r.List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("List after Destroy: %v, %v", names, err)
	}
}

// anyLives says whether one of the processes, known by pid and start time, is still there.
func anyLives(all map[int]uint64) bool {
	for pid, start := range all {
		if now, err := startTime(pid); err == nil && now == start {
			return true
		}
	}
	return false
}

// descendants are pid and the processes below it, with their start times.
func descendants(pid int) map[int]uint64 {
	parent := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if at := strings.LastIndexByte(string(text), ')'); at > 0 {
			parent[p], _ = strconv.Atoi(strings.Fields(string(text[at+1:]))[1])
		}
	}
	found := map[int]uint64{}
	for p := range parent {
		for at := p; at > 1; at = parent[at] {
			if at == pid {
				found[p], _ = startTime(p)
				break
			}
		}
	}
	return found
}

// waitFor waits until what is true.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		unix.Poll(nil, 5)
	}
}
