package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Follow gives the events of the log at path to yield, those that are there and
// then each one as it is written, until ctx is done (nil), the log is removed
// (nil) or yield returns an error (that error). It sleeps in between (inotify(7)).
// A log that is cut or replaced meanwhile is read from its beginning.
func Follow(ctx context.Context, path string, filter Filter, yield func(Event) error) error {
	f := follower{path: path, filter: filter, yield: yield}
	if err := f.run(ctx); err != nil {
		return fmt.Errorf("following the audit log: %w", err)
	}
	return nil
}

type follower struct {
	path   string
	filter Filter
	yield  func(Event) error

	watch *os.File // inotify
	file  *os.File
	lines *lineReader
}

func (f *follower) run(ctx context.Context) (err error) {
	defer func() {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
		}
	}()
	if err := f.startWatch(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { f.watch.Close() })
	defer func() {
		if stop() {
			f.watch.Close()
		}
	}()
	if err := f.open(); err != nil {
		return err
	}
	events := make([]byte, 16<<10)
	for {
		if err := f.readNew(); err != nil {
			return err
		}
		gone, err := f.reopen()
		if gone || err != nil {
			return err
		}
		if _, err := f.watch.Read(events); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// startWatch watches the folder for the log being made, replaced or removed.
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
func (f *follower) open() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.lines = file, newLineReader(file)
	// Watched by the open file, since another may be at path by now.
	return f.watchPath(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.IN_MODIFY|unix.IN_ATTRIB)
}

func (f *follower) readNew() error {
	for {
		e, err := f.lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if f.filter.Match(e) {
			if err := f.yield(e); err != nil {
				return err
			}
		}
	}
}

// reopen looks whether the log is still the file that is being read, and reads
// another or a shortened one from its beginning. gone says that there is none.
func (f *follower) reopen() (gone bool, err error) {
	now, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	old, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	if os.SameFile(now, old) {
		at, err := f.file.Seek(0, io.SeekCurrent)
		if err != nil || old.Size() >= at {
			return false, err
		}
	}
	if err := f.open(); err != nil {
		return errors.Is(err, os.ErrNotExist), ignoreAbsent(err)
	}
	return false, f.readNew()
}

func ignoreAbsent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
