package tail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A file is taken as changed once it has been left alone for settle, so that
// one that is written in pieces is not read half; after maxSettle it is taken all the same.
const (
	settle    = 100 * time.Millisecond
	maxSettle = 2 * time.Second
)

// Files watches files that are written, replaced, made or removed now and
// then, such as a configuration: editors put another file in their place, and others a
// link to another folder, so it is their folders that are watched.
type Files struct {
	watch *os.File // inotify
	look  func(path string) state

	mu      sync.Mutex
	seen    map[string]state // by path
	folders map[string]int   // watched, with their watch descriptors
}

// state is what a file was when it was looked at; the zero state is that it is absent.
type state struct {
	device, inode  uint64
	mode           uint32
	size           int64
	changed, wrote unix.Timespec
}

// WatchFiles watches nothing yet: see Set.
func WatchFiles() (*Files, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching for changes: %w", err)
	}
	return &Files{watch: os.NewFile(uintptr(fd), "inotify"), look: look, seen: map[string]state{}, folders: map[string]int{}}, nil
}

// Close ends the watch, where Run doesn't.
func (f *Files) Close() error { return f.watch.Close() }

// Set says which files to watch from now on, in the place of those before; they need not be there.
// What was already watched goes on as it was. The error says which folders can't be watched.
func (f *Files) Set(paths []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.seen
	f.seen = make(map[string]state, len(paths))
	for _, path := range paths {
		f.seen[path] = before[path]
	}
	err := f.armLocked() // first: what changes after a look is told
	for path := range f.seen {
		if _, ok := before[path]; !ok {
			f.seen[path] = f.look(path)
		}
	}
	return err
}

// armLocked watches the folders that the files are in now, and no others.
func (f *Files) armLocked() error {
	for {
		before := f.folders
		err := f.armOnceLocked()
		if maps.Equal(before, f.folders) { // else one may have been made before the one above it was watched
			return err
		}
	}
}

func (f *Files) armOnceLocked() error {
	wanted := map[string]int{}
	var errs []error
	for path := range f.seen {
		for _, folder := range foldersOf(path) {
			if _, ok := wanted[folder]; ok {
				continue
			}
			wd, err := f.add(folder)
			if err != nil {
				errs = append(errs, fmt.Errorf("watching %s: %w", folder, err))
				continue
			}
			wanted[folder] = wd
		}
	}
	kept := map[int]bool{}
	for wd := range maps.Values(wanted) {
		kept[wd] = true
	}
	for wd := range maps.Values(f.folders) {
		if !kept[wd] {
			f.control(func(fd int) error { _, err := unix.InotifyRmWatch(fd, uint32(wd)); return err }) // it may be gone
		}
	}
	f.folders = wanted
	return errors.Join(errs...)
}

// foldersOf are the folders in which a change can change the file at path:
// its own or, if that is absent, the nearest above; and the one that a link leads to.
func foldersOf(path string) []string {
	folder := filepath.Dir(path)
	for folder != "/" {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			break
		}
		folder = filepath.Dir(folder)
	}
	folders := []string{folder}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != folder {
		folders = append(folders, filepath.Dir(real))
	}
	return folders
}

func (f *Files) add(folder string) (wd int, err error) {
	const mask = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_MOVE | unix.IN_DELETE | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	err = f.control(func(fd int) error {
		var err error
		wd, err = unix.InotifyAddWatch(fd, folder, mask)
		return err
	})
	return wd, err
}

func (f *Files) control(do func(fd int) error) error {
	conn, err := f.watch.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	return errors.Join(conn.Control(func(fd uintptr) { doErr = do(int(fd)) }), doErr)
}

// Run calls changed after any of the files has changed, until ctx is done
// (nil) or watching fails. It closes the watch.
func (f *Files) Run(ctx context.Context, changed func()) error {
	end := sync.OnceFunc(func() { f.watch.Close() }) // waits for who does it already: a user has few of them
	defer end()
	defer context.AfterFunc(ctx, end)()
	events := make([]byte, 16<<10)
	for {
		if _, err := f.watch.Read(events); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if f.hasChanged(ctx) {
			changed()
		}
	}
}

// hasChanged looks at the files, and again until they are left alone.
func (f *Files) hasChanged(ctx context.Context) bool {
	any := false
	for deadline := time.Now().Add(maxSettle); ; {
		again := f.lookAgain()
		any = any || again
		if !again || time.Now().After(deadline) {
			return any
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(settle):
		}
	}
}

// lookAgain says whether a file is another than it was when it was last looked at.
func (f *Files) lookAgain() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.armLocked() // a folder may have been replaced; one that can't be watched is not there
	changed := false
	for path, was := range f.seen {
		if now := f.look(path); now != was {
			f.seen[path] = now
			changed = true
		}
	}
	return changed
}

func look(path string) state {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return state{}
	}
	return state{s.Dev, s.Ino, s.Mode, s.Size, s.Ctim, s.Mtim}
}
