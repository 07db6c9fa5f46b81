package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
)

// pinName is a link in the state folder to the run-time folder that its
// sandboxes use. Variables differ between a login, cron and su: a process that looked
// in another place would take running sandboxes for dead, and clean them up.
const pinName = "runtime"

// inUse is the run-time folder that the state folder is pinned to, if it is
// there, the state folder's owner's, and holds something; else "".
func (p Places) inUse() string {
	dir, err := os.Readlink(filepath.Join(p.State, pinName))
	if err != nil {
		return ""
	}
	var state, st unix.Stat_t
	if unix.Stat(p.State, &state) != nil || unix.Lstat(dir, &st) != nil ||
		st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != state.Uid || st.Mode&0o022 != 0 {
		return ""
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return ""
	}
	return dir
}

func (p Places) conflict(dir string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "sandboxes of %s run in %s, not in %s", p.State, dir, p.Runtime),
		"set FORAGE_RUNTIME_DIR to that folder, or stop them first")
}

// MakeRuntime makes the run-time folder if it is not there, checks that it is the caller's alone,
// and pins the state folder to it. Below /tmp another user may have made it first: such a folder or
// link is ErrRefused, never used. It is called before each start.
func (p Places) MakeRuntime() error {
	if err := makePrivate(p.Runtime); err != nil {
		return forage.WithHint(fmt.Errorf("preparing the run-time folder: %w", err),
			"set FORAGE_RUNTIME_DIR to a folder that only you can use")
	}
	if err := p.pin(); err != nil {
		return fmt.Errorf("preparing the run-time folder: %w", explain(err))
	}
	return nil
}

func (p Places) pin() error {
	link := filepath.Join(p.State, pinName)
	if dir, err := os.Readlink(link); err == nil && dir == p.Runtime {
		return nil
	}
	if dir := p.inUse(); dir != "" {
		return p.conflict(dir)
	}
	if err := makePrivate(p.State); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A quicker process has pinned it to the same folder, or wins.
	if err := os.Symlink(p.Runtime, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if dir, err := os.Readlink(link); err == nil && dir != p.Runtime {
		return p.conflict(dir)
	}
	return nil
}
