package tail

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Folder tells that something in a folder has changed (inotify(7)), also that a process which wrote
// to a file there has ended.
type Folder struct {
	path   string
	events *os.File
}

// WatchFolder watches nothing before Arm.
func WatchFolder(path string) (*Folder, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching for changes: %w", err)
	}
	return &Folder{path, os.NewFile(uintptr(fd), "inotify")}, nil
}

// Arm watches the folder, if it is there by now.
func (f *Folder) Arm() {
	const what = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVE | unix.IN_DELETE | unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR
	if conn, err := f.events.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _, _ = unix.InotifyAddWatch(int(fd), f.path, what) })
	}
}

// Wait waits for a change; false is the end.
func (f *Folder) Wait() bool {
	_, err := f.events.Read(make([]byte, 16<<10))
	return err == nil
}

// Close ends the watch, and Wait.
func (f *Folder) Close() error { return f.events.Close() }
