package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// sweepDeadline is how long what a script started may take to go away after
// everything was taken down.
const sweepDeadline = conditionDeadline

// sweep ends a script: it takes down what still runs and fails the test when
// anything but that is left.
func sweep(env *testscript.Env) {
	env.Values[ptyKey{}].(*ptyState).close()
	for _, args := range [][]string{{"down", "--all", "--force"}, {"gc"}} {
		cmd := exec.Command("forage-ctl", args...)
		cmd.Env = env.Vars
		cmd.Dir = env.WorkDir
		if out, err := cmd.CombinedOutput(); err != nil {
			env.T().Log(fmt.Sprintf("cleaning up: forage-ctl %s: %v\n%s", strings.Join(args, " "), err, out))
		}
	}
	left := leftBehind(env.Getenv("FORAGE_STATE_DIR"), env.Getenv("FORAGE_RUNTIME_DIR"), nil)
	for deadline := time.Now().Add(sweepDeadline); left != nil && time.Now().Before(deadline); {
		<-time.After(20 * time.Millisecond)
		left = leftBehind(env.Getenv("FORAGE_STATE_DIR"), env.Getenv("FORAGE_RUNTIME_DIR"), nil)
	}
	if left == nil {
		return
	}
	env.T().Log(fmt.Sprintf("left behind:\n%v", left))
	for _, pid := range descendants(os.Getpid()) {
		unix.Kill(pid, unix.SIGKILL)
	}
	env.T().FailNow()
}

// leftBehind says what is there of sandboxes that should be gone: processes
// below us, mounts, run-time folders, records. expected are the processes that may live.
func leftBehind(stateDir, runtimeDir string, expected map[int]bool) error {
	var left []error
	for _, pid := range descendants(os.Getpid()) {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) == "podman pause\n" {
			continue // which podman keeps for its user, once it was asked anything
		}
		if !expected[pid] {
			left = append(left, fmt.Errorf("process %d: %s", pid, commandLineOf(pid)))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, stateDir) || strings.Contains(line, runtimeDir) {
			left = append(left, fmt.Errorf("mount %s", line))
		}
	}
	left = append(left, filesIn(runtimeDir, func(name string) bool { return name != ".scratch" })...)
	left = append(left, filesIn(filepath.Join(runtimeDir, ".scratch"), func(string) bool { return true })...)
	left = append(left, filesIn(filepath.Join(stateDir, "sandboxes"), func(name string) bool {
		return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".generated") || strings.HasSuffix(name, ".log")
	})...)
	left = append(left, filesIn(filepath.Join(stateDir, "homes"), func(string) bool { return true })...)
	return errors.Join(left...)
}

// filesIn lists what is in dir and matters, as errors.
func filesIn(dir string, matters func(name string) bool) []error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return []error{err}
	}
	var found []error
	for _, entry := range entries {
		if matters(entry.Name()) {
			found = append(found, fmt.Errorf("file %s", filepath.Join(dir, entry.Name())))
		}
	}
	return found
}

// descendants are the live processes below pid. Orphans among them are our
// children, since the process that runs a script is their subreaper.
func descendants(pid int) []int {
	children := make(map[int][]int)
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; state and parent follow it
		// (proc_pid_stat(5)).
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		if fields[0] == "Z" && onlyThread(child) {
			continue
		}
		children[parent] = append(children[parent], child)
	}
	var found []int
	for next := children[pid]; len(next) > 0; {
		child := next[0]
		found = append(found, child)
		next = append(next[1:], children[child]...)
	}
	return found
}

// onlyThread says whether nothing of an ended process runs any more: its first
// thread ends before the others, which still hold files and locks.
func onlyThread(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err != nil || len(threads) <= 1
}

func commandLineOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "(ended)"
	}
	return strconv.Quote(string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '})))
}
