package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"forage"
	"forage/internal/deadline"
	"forage/internal/limits"
)

// state is what Destroy needs to know of a sandbox whose supervisor is gone;
// it is kept in Request.Dir/runtime.json:
//
//	{"runtime":"native","pid":4711,"start":123456,"cgroup":"..."}
type state struct {
	Runtime string `json:"runtime"`
	PID     int    `json:"pid"`
	// Start is the process's start time in clock ticks after boot, which makes
	// the pid unmistakable: proc_pid_stat(5), field 22.
	Start  uint64 `json:"start"`
	Cgroup string `json:"cgroup,omitempty"`
}

func statePath(dir string) string { return filepath.Join(dir, "runtime.json") }

// saveState writes the file at once: a reader finds all of it or nothing.
func saveState(dir string, s state) error {
	var err error
	if s.PID > 0 {
		if s.Start, err = startTime(s.PID); err != nil {
			return err
		}
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(statePath(dir), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the runtime's state: %w", err)
	}
	return nil
}

// Announce puts on record that a sandbox of this runtime is about to be made in dir.
func (r *Runtime) Announce(dir string) error { return saveState(dir, state{Runtime: r.config.Name}) }

// Forget takes that back.
func Forget(dir string) error { return removeState(dir) }

// readState says what a sandbox of this runtime left in dir, if it left something.
func (r *Runtime) readState(dir string) (s state, found bool, err error) {
	text, err := os.ReadFile(statePath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil && len(text) == 0 { // killed while it was written: the guest ended with us
		return s, true, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, s.Runtime == r.config.Name, err
}

func removeState(dir string) error {
	if err := os.Remove(statePath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the runtime's state: %w", err)
	}
	return nil
}

// startTime returns when a process started; fs.ErrNotExist when there is none.
func startTime(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The command's name, in parentheses, may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d has a strange stat", pid)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// Destroy ends what is left of a sandbox and removes what it left.
func (r *Runtime) Destroy(ctx context.Context, name string) error {
	if err := forage.CheckName(name); err != nil {
		return err
	}
	dir := filepath.Join(r.config.Dir, name)
	s, found, err := r.readState(dir)
	if err != nil {
		return fmt.Errorf("destroying %s: reading its state: %w", name, err)
	}
	if !found {
		return nil
	}
	if s.PID > 0 {
		err = deadline.Kill(s.PID, func() (bool, error) { // if it is still that process
			start, err := startTime(s.PID)
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return start == s.Start, err
		})
	}
	if err == nil {
		err = limits.Remove(s.Cgroup)
	}
	if err != nil {
		return fmt.Errorf("destroying %s: %w", name, err)
	}
	return removeState(dir)
}

// List names the sandboxes that left something.
func (r *Runtime) List(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(r.config.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() || forage.CheckName(e.Name()) != nil {
			continue
		}
		// State that can't be read may be ours: Destroy says what is wrong with it.
		if _, found, err := r.readState(filepath.Join(r.config.Dir, e.Name())); found || err != nil {
			names = append(names, e.Name())
		}
	}
	return names, ctx.Err()
}
