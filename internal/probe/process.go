package probe

import (
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxProcesses is more than a sandbox that has just started runs: seeing more
// means seeing the host's.
const maxProcesses = 20

// processWalls are about other processes: the guest, which serves the agent
// and is not its to touch, and the host's.
func processWalls() []wall {
	return []wall{
		reading("processes", "/proc/1/environ"),
		reading("processes", "/proc/1/mem"),
		{"processes", "listing the guest's descriptors", func(context.Context) error {
			_, err := os.ReadDir("/proc/1/fd")
			return err
		}},
		{"processes", "the guest's root", func(context.Context) error {
			_, err := os.ReadDir("/proc/1/root")
			return err
		}},
		{"processes", "running the guest's program", func(context.Context) error {
			_, err := os.Readlink("/proc/1/exe")
			return err
		}},
		{"processes", "tracing the guest", func(context.Context) error { return unix.PtraceAttach(1) }},
		{"processes", "signalling the guest", func(context.Context) error { return unix.Kill(1, 0) }},
		{"processes", "limiting the guest", func(context.Context) error {
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil)
		}},
		{"processes", "seeing the host's processes", func(context.Context) error {
			entries, err := os.ReadDir("/proc")
			if err != nil {
				return err
			}
			seen := 0
			for _, entry := range entries {
				if _, err := strconv.Atoi(entry.Name()); err == nil {
					seen++
				}
			}
			return must(seen <= maxProcesses, "%d processes are visible", seen)
		}},
		{"processes", "the host's control groups", func(context.Context) error {
			_, err := os.ReadDir("/sys/fs/cgroup")
			if err == nil || !errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		}},
	}
}
