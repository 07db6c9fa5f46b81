package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"forage/internal/deadline"

	"golang.org/x/sys/unix"
)

// removeFolders empties and removes groups. It goes on after an error.
func removeFolders(paths []string) error {
	var errs []error
	for _, path := range paths {
		if !strings.HasPrefix(filepath.Base(path), prefix) || !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("removing a control group: %s is not ours", path))
			continue
		}
		if err := removeFolder(path); err != nil {
			errs = append(errs, fmt.Errorf("removing a control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

func removeFolder(path string) error {
	until := time.Now().Add(deadline.Answer)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := removeTree(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			return err
		}
		if err := killAll(path); err != nil {
			return err
		}
		// There is no event for a v1 group that becomes empty.
		time.Sleep(pause)
	}
}

// removeTree removes a group and those that were made in it.
func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(path, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return unix.Rmdir(path)
}

// killAll kills every process in a group: under cgroup v2 those in groups below it too. Under v1
// there are none, since no sandbox sees the hierarchy.
func killAll(path string) error {
	if err := os.WriteFile(path+"/cgroup.kill", []byte("1"), 0); err == nil { // since Linux 5.14
		return nil
	}
	members := func() []string { return Host().fields(path + "/cgroup.procs") }
	for _, member := range members() {
		pid, err := strconv.Atoi(member)
		if err != nil || pid == 0 || pid == os.Getpid() {
			return fmt.Errorf("a process in %s can't be killed from here", path)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			// Its number may have been given to another process before.
			if slices.Contains(members(), member) {
				err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			unix.Close(fd)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing process %d: %w", pid, err)
		}
	}
	return nil
}
