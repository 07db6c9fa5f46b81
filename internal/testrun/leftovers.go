package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes every orphan below this process its child
// (PR_SET_CHILD_SUBREAPER in prctl(2)), so that none gets out of sight.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the one who inherits orphans: %w", err)
	}
	return nil
}

// exitStatus is how the suite ended, when that is not 0.
type exitStatus int

func (s exitStatus) Error() string { return "exit status " + strconv.Itoa(int(s)) }

// testsFailed is what go test says when it ran and something failed.
const testsFailed exitStatus = 1

// reapUntil reaps every child that ends, up to the one with that process id.
func reapUntil(pid int) error {
	for {
		var status unix.WaitStatus
		reaped, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for the suite: %w", err)
		case reaped == pid && status.Signaled():
			return fmt.Errorf("ended by signal %d", status.Signal())
		case reaped == pid && status.ExitStatus() != 0:
			return exitStatus(status.ExitStatus())
		case reaped == pid:
			return nil
		}
	}
}

// checkLeftovers reaps orphans until none is left; after grace it reports and kills what still
// runs.
func checkLeftovers(grace time.Duration) error {
	deadline := time.Now().Add(grace)
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case errors.Is(err, unix.EINTR) || pid > 0:
			continue
		case err != nil:
			return fmt.Errorf("waiting for what the suite left: %w", err)
		case time.Now().After(deadline):
			return reportLeftovers()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reportLeftovers names our children and kills them.
func reportLeftovers() error {
	var errs []error
	pids, err := children(os.Getpid())
	for _, pid := range pids {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) == "podman pause\n" { // podman keeps it for its user
			errs = append(errs, unix.Kill(pid, unix.SIGKILL))
			continue
		}
		errs = append(errs, fmt.Errorf("left behind: process %d: %s", pid, commandLine(pid)))
		errs = append(errs, unix.Kill(pid, unix.SIGKILL))
	}
	return errors.Join(append(errs, err)...)
}

// children lists the processes whose parent is pid.
func children(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; the state and the parent follow it.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found, nil
}

// commandLine is the quoted command line of a process.
func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "(ended)"
	}
	return strconv.Quote(string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '})))
}
