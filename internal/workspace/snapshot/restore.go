package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"forage"
)

// Restore makes the folders of r exactly what they were in the snapshot id of a sandbox, which may be
// another than r's. What they are now is kept first, as the snapshot before: nothing is taken away or
// written over that is not in it. So what the snapshot doesn't know and before leaves out (ignored, or made
// while this runs) stays, and is in the way if it is where a file belongs. Folders that the snapshot has and r doesn't stay in it.
//
// Each file changes in one step. A restore that ends early, by an error or by force, can be done again.
func (s Store) Restore(ctx context.Context, sandbox, id string, r Request) (before Snapshot, err error) {
	unlock, err := s.share(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer unlock()
	m, err := s.whole(sandbox, id)
	if err != nil {
		return Snapshot{}, err
	}
	for _, f := range r.Folders {
		if err := os.Mkdir(f.Path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return Snapshot{}, explain(err)
		}
	}
	present, err := s.create(ctx, r, m)
	if err != nil {
		return Snapshot{}, err
	}
	var errs []error
	for _, f := range r.Folders {
		if c := m.contents(f.Name); c != nil {
			errs = append(errs, s.put(ctx, f, c, present.contents(f.Name)))
		}
	}
	return present.Snapshot, explain(errors.Join(errs...))
}

// Export writes folders of a snapshot to other places, which must be empty or not there.
func (s Store) Export(ctx context.Context, sandbox, id string, folders []Folder) error {
	unlock, err := s.share(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := s.whole(sandbox, id)
	if err != nil {
		return err
	}
	for _, f := range folders {
		c := m.contents(f.Name)
		if c == nil {
			continue
		}
		if err := os.MkdirAll(f.Path, 0o700); err != nil {
			return explain(err)
		}
		if names, err := list(f.Path); err != nil || len(names) > 0 {
			return errors.Join(err, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is not empty", f.Path), "name a folder that is empty or not there"))
		}
		if err := s.put(ctx, f, c, nil); err != nil {
			return explain(err)
		}
	}
	return nil
}

// whole reads a snapshot, and makes sure that its contents are all there before anything is changed.
func (s Store) whole(sandbox, id string) (*manifest, error) {
	if err := s.check(sandbox, id); err != nil {
		return nil, err
	}
	m, err := readManifest(s.path(sandbox, id))
	if err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", id, err)
	}
	o := objects{dir: s.Dir}
	for _, c := range m.folders {
		for _, e := range c.entries {
			if e.kind == kindFile && !o.has(e.digest, e.size) {
				return nil, fmt.Errorf("reading snapshot %s: the content of %s is missing or damaged (nothing was changed)", id, e.path)
			}
		}
	}
	return m, nil
}

// put makes the folder f what c says. present is what it is now; nil: nothing that is there is known.
func (s Store) put(ctx context.Context, f Folder, c, present *contents) error {
	root, err := openFolder(unix.AT_FDCWD, f.Path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &outlet{objects: objects{dir: s.Dir}, ctx: ctx, cancel: cancel, present: present, below: make(map[string][]*entry)}
	o.copiers.New = func() any { return newCopier() }
	o.slots = make(chan struct{}, workers())
	for _, e := range c.entries {
		if e.path != "" {
			o.below[dirOf(e.path)] = append(o.below[dirOf(e.path)], e)
		}
	}
	if top := c.find(""); top != nil {
		o.folder(root, top)
	}
	if err := o.join(); err != nil {
		return fmt.Errorf("restoring %s: %w", f.Path, err)
	}
	return nil
}

func dirOf(at string) string {
	if dir := path.Dir(at); dir != "." {
		return dir
	}
	return ""
}

// outlet brings contents out of the store, from descriptor to descriptor as the walker takes them in.
type outlet struct {
	objects
	ctx     context.Context
	cancel  context.CancelCauseFunc
	present *contents
	below   map[string][]*entry // by folder
	slots   chan struct{}
	copiers sync.Pool

	mu     sync.Mutex
	errs   []error
	failed int
}

// maxErrors is how many errors are told apart.
const maxErrors = 10

// fail puts an error on record: the rest goes on, but where it can't.
func (o *outlet) fail(at string, err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed++; o.failed <= maxErrors {
		o.errs = append(o.errs, fmt.Errorf("%q: %w", at, err))
	}
	for _, hopeless := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, hopeless) {
			o.cancel(err)
		}
	}
}

func (o *outlet) join() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == 0 {
		return context.Cause(o.ctx)
	}
	if more := o.failed - maxErrors; more > 0 {
		o.errs = append(o.errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(o.errs...)
}

// folder makes dir, which it closes, what e says, and all below.
func (o *outlet) folder(dir *os.File, e *entry) {
	defer dir.Close()
	fd := int(dir.Fd())
	if err := o.open(dir); err != nil {
		o.fail(e.path, err)
		return
	}
	wanted := o.below[e.path]
	o.clear(dir, e.path, wanted)
	var files sync.WaitGroup
	for _, child := range wanted {
		if o.ctx.Err() != nil {
			break
		}
		name := path.Base(child.path)
		switch child.kind {
		case kindFolder:
			if next, err := o.makeFolder(fd, name, child.path); err != nil {
				o.fail(child.path, err)
			} else {
				o.folder(next, child)
			}
		case kindLink:
			o.fail(child.path, o.link(fd, name, child))
		case kindFile:
			o.slots <- struct{}{}
			files.Go(func() {
				o.fail(child.path, o.file(fd, name, child))
				<-o.slots
			})
		}
	}
	files.Wait()
	if o.ctx.Err() == nil {
		o.fail(e.path, o.finish(fd, e))
	}
}

// open makes sure that its owner may change a folder.
func (o *outlet) open(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&0o700 == 0o700 || os.Geteuid() == 0 {
		return nil
	}
	return unix.Fchmod(int(dir.Fd()), st.Mode&0o7777|0o700)
}

// finish gives a folder its mode, attributes and time, when nothing in it changes any more.
func (o *outlet) finish(fd int, e *entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	own(fd, &st, e)
	if x := readXattrs(fd); !sameXattrs(x, e.xattrs) {
		writeXattrs(fd, e.xattrs, x)
	}
	if st.Mode&permissions != e.mode {
		if err := unix.Fchmod(fd, st.Mode&^permissions&0o7777|e.mode); err != nil {
			return err
		}
	}
	if (stamp{st.Mtim.Sec, st.Mtim.Nsec}) == e.mtime {
		return nil
	}
	// By its own descriptor: in a folder that may not be entered, "." is not to be had.
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), e.mtime.times(), 0)
}

// procPath is a path to an open file, wherever it is now: proc_pid_fd(5).
func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// times leave the time of the last access alone.
func (t stamp) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: t.sec, Nsec: t.nsec}}
}

// own gives a file back to its owner, which root alone can.
func own(fd int, st *unix.Stat_t, e *entry) {
	if os.Geteuid() == 0 && (st.Uid != e.uid || st.Gid != e.gid) {
		unix.Fchown(fd, int(e.uid), int(e.gid)) // in a user namespace not all can be: they stay the caller's
	}
}

// makeFolder opens the folder called name, and makes it if something else or nothing is there.
func (o *outlet) makeFolder(dir int, name, at string) (*os.File, error) {
	for try := 1; ; try++ {
		child, err := openFolder(dir, name)
		switch {
		case err == nil || try == 3:
			return child, err
		case errors.Is(err, unix.EACCES):
			err = unlock(dir, name)
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			err = o.makeWay(dir, name, at)
		case errors.Is(err, unix.ENOENT):
			err = unix.Mkdirat(dir, name, 0o700)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
}

// unlock lets its owner into a folder, without following a link in its place.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.Chmod(procPath(fd), 0o700)
}

func (o *outlet) link(dir int, name string, e *entry) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		buffer := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(dir, name, buffer); err == nil && string(buffer[:n]) == e.target {
			return timeAt(dir, name, &st, e)
		}
	}
	if err := o.inTheWay(dir, name, e.path); err != nil {
		return err
	}
	temporary := temporaryName()
	if err := unix.Symlinkat(e.target, dir, temporary); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		unix.Fchownat(dir, temporary, int(e.uid), int(e.gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err := unix.UtimesNanoAt(dir, temporary, e.mtime.times(), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, temporary, 0))
	}
	return o.replace(dir, temporary, name, e.path)
}

// timeAt gives what is called name its time, unless it has it.
func timeAt(dir int, name string, st *unix.Stat_t, e *entry) error {
	if (stamp{st.Mtim.Sec, st.Mtim.Nsec}) == e.mtime {
		return nil
	}
	return unix.UtimesNanoAt(dir, name, e.mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
}
