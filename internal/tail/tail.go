// Package tail reads a file that grows, as `tail -F` does, and sleeps in
// between (inotify(7)). It knows nothing of what is in the file.
package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// File gives the file at path to begin, and calls the function that begin
// returns whenever there may be more to read, until ctx is done or the file is
// removed (both nil), or a callback fails. A file that is cut or replaced meanwhile is given to
// begin again, from its beginning; again then says so. A file that is absent
// from the start is an error.
func File(ctx context.Context, path string, begin func(file *os.File, again bool) (read func() error, err error)) error {
	f := follower{path: path, begin: begin}
	defer func() {
		if f.file != nil {
			f.file.Close()
		}
	}()
	if err := f.startWatch(); err != nil {
		return err
	}
	end := sync.OnceFunc(func() { f.watch.Close() }) // waits for who does it already: a user has few of them
	defer end()
	defer context.AfterFunc(ctx, end)()
	if err := f.open(ctx); err != nil {
		return err
	}
	return f.run(ctx)
}

type follower struct {
	path  string
	begin func(*os.File, bool) (func() error, error)

	watch *os.File // inotify
	file  *os.File
	read  func() error
}

func (f *follower) run(ctx context.Context) error {
	events := make([]byte, 16<<10)
	for {
		if err := f.read(); err != nil {
			return err
		}
		gone, err := f.reopen(ctx)
		if gone || err != nil {
			return err
		}
		if _, err := f.watch.Read(events); err != nil {
			if ctx.Err() != nil {
				return f.read()
			}
			return err
		}
	}
}

// startWatch watches the folder for the file being made, replaced or removed.
func (f *follower) startWatch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching for changes: %w", err)
	}
	f.watch = os.NewFile(uintptr(fd), "inotify")
	if err := f.watchPath(filepath.Dir(f.path), unix.IN_CREATE|unix.IN_MOVE|unix.IN_DELETE|unix.IN_ONLYDIR); err != nil {
		return errors.Join(err, f.watch.Close())
	}
	return nil
}

func (f *follower) watchPath(path string, mask uint32) error {
	conn, err := f.watch.SyscallConn()
	if err != nil {
		return err
	}
	var watchErr error
	if err := conn.Control(func(fd uintptr) {
		_, watchErr = unix.InotifyAddWatch(int(fd), path, mask)
	}); err != nil {
		return err
	}
	if watchErr != nil {
		return fmt.Errorf("watching %s: %w", path, watchErr)
	}
	return nil
}

// open begins to read the file that is at path now.
func (f *follower) open(ctx context.Context) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	again := f.file != nil
	if again {
		f.file.Close()
	}
	f.file = file
	if f.read, err = f.begin(file, again); err != nil {
		return err
	}
	// Watched by the open file, since another may be at path by now.
	err = f.watchPath(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.IN_MODIFY|unix.IN_ATTRIB)
	if ctx.Err() != nil { // nothing is watched any more: what is there is read, and that is all
		return nil
	}
	return err
}

// reopen looks whether path still leads to the file that is being read, and
// begins with another or a shortened one. gone says that there is none.
func (f *follower) reopen(ctx context.Context) (gone bool, err error) {
	now, err := os.Stat(f.path)
	if err == nil {
		var old os.FileInfo
		if old, err = f.file.Stat(); err != nil {
			return false, err
		}
		if os.SameFile(now, old) {
			at, err := f.file.Seek(0, io.SeekCurrent)
			if err != nil || old.Size() >= at {
				return false, err
			}
		} else if err := f.read(); err != nil { // what it was given last
			return false, err
		}
		if err = f.open(ctx); err == nil {
			return false, f.read()
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return false, err
}
