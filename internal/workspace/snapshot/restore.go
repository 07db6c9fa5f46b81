package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

// Restore makes the folders of r exactly what they were in the snapshot id of a sandbox, which may be
// another than r's. What they are now is kept first, as the snapshot before: nothing is taken away or
// written over that is not in it. So what the snapshot doesn't know and before leaves out (ignored, or made
// while this runs) stays, and is in the way if it is where a file belongs. Folders that the snapshot has and r doesn't stay in it.
//
// Each file changes in one step. A restore that ends early, by an error or by force, can be done again.
func (s Store) Restore(ctx context.Context, sandbox, id string, r Request) (before Snapshot, err error) {
	if err := s.exists(sandbox, id); err != nil {
		return Snapshot{}, err
	}
	for _, f := range r.Folders {
		if err := makeFolder(f.Path); err != nil {
			return Snapshot{}, explain(err)
		}
	}
	if before, err = s.create(ctx, r, s.path(sandbox, id)); err != nil {
		return Snapshot{}, explain(err)
	}
	var errs []error
	for _, f := range r.Folders {
		present, err := readRecord(recordOf(s.path(r.Sandbox, before.ID), f.Name))
		if err == nil {
			err = s.put(ctx, f, s.path(sandbox, id), present)
		}
		errs = append(errs, err)
	}
	return before, explain(errors.Join(errs...))
}

// makeFolder makes a folder that is not there, through no link. The one above it need not be readable where it is there.
func makeFolder(name string) error {
	if folder, err := workspace.OpenFolder(name); !errors.Is(err, os.ErrNotExist) {
		folder.Close()
		return err
	}
	parent, err := workspace.OpenFolder(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), path.Base(name), 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// Export writes folders of a snapshot to other places, which must be empty or not there.
func (s Store) Export(ctx context.Context, sandbox, id string, folders []Folder) error {
	if err := s.exists(sandbox, id); err != nil {
		return err
	}
	for _, f := range folders {
		if err := os.MkdirAll(f.Path, 0o700); err != nil {
			return explain(err)
		}
		if names, err := os.ReadDir(f.Path); err != nil || len(names) > 0 {
			return errors.Join(err, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is not empty", f.Path), "name a folder that is empty or not there"))
		}
		if err := s.put(ctx, f, s.path(sandbox, id), nil); err != nil {
			return explain(err)
		}
	}
	return nil
}

// put makes the folder f what the snapshot in dir has, if it has one. present is what it is now; nil: nothing that is there is known.
func (s Store) put(ctx context.Context, f Folder, dir string, present []*entry) error {
	entries, err := readRecord(recordOf(dir, f.Name))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restoring %s: %w", f.Path, err)
	}
	root, err := workspace.OpenFolder(f.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	tree, err := openTree(treeOf(dir, f.Name))
	if err != nil {
		return fmt.Errorf("opening the snapshot: %w", err)
	}
	defer unix.Close(tree)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &outlet{
		ctx: ctx, cancel: cancel, present: index(present), below: make(map[string][]*entry), made: make(map[string]inode),
		buffer: make([]byte, bufferSize),
	}
	for _, e := range entries[1:] {
		o.below[dirOf(e.Path)] = append(o.below[dirOf(e.Path)], e)
		if e.Kind == kindFile && e.Target != "" {
			o.made[e.Target] = inode{}
		}
	}
	if o.root, err = os.OpenRoot(procPath(int(root.Fd()))); err != nil {
		return err
	}
	defer o.root.Close()
	o.folder(root, tree, entries[0])
	if len(o.errs) == 0 && ctx.Err() != nil {
		o.errs = append(o.errs, context.Cause(ctx))
	}
	if err := errors.Join(o.errs...); err != nil {
		return fmt.Errorf("restoring %s: %w", f.Path, err)
	}
	return nil
}

// procPath is a path to an open file, wherever it is now: proc_pid_fd(5).
func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

func dirOf(at string) string {
	if dir := path.Dir(at); dir != "." {
		return dir
	}
	return ""
}

// outlet brings the files of a snapshot into a folder, from descriptor to descriptor as the walker takes them in.
type outlet struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	root    *os.Root
	present map[string]*entry
	below   map[string][]*entry // by folder
	made    map[string]inode    // first names of files that have several, and what is there now; zero: nothing yet
	buffer  []byte
	errs    []error
}

// maxErrors is how many errors are told apart.
const maxErrors = 10

// fail puts an error on record: the rest goes on, but where it can't.
func (o *outlet) fail(at string, err error) {
	if err == nil {
		return
	}
	switch len(o.errs) {
	default:
		o.errs = append(o.errs, fmt.Errorf("%q: %w", at, err))
	case maxErrors:
		o.errs = append(o.errs, errors.New("and more"))
	case maxErrors + 1:
	}
	for _, hopeless := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, hopeless) {
			o.cancel(err)
		}
	}
}

// folder makes dir what e says, and all below; from is the same folder of the snapshot. It gets its own attributes when all in it is done.
func (o *outlet) folder(dir *os.File, from int, e *entry) {
	fd := int(dir.Fd())
	if err := open(fd); err != nil {
		o.fail(e.Path, err)
		return
	}
	wanted := o.below[e.Path]
	o.clear(dir, e.Path, wanted)
	for _, child := range wanted {
		if o.ctx.Err() != nil {
			return
		}
		name := path.Base(child.Path)
		switch child.Kind {
		case kindFolder:
			o.fail(child.Path, o.subfolder(fd, from, name, child))
		case kindLink:
			o.fail(child.Path, o.link(fd, name, child))
		case kindFile:
			o.fail(child.Path, o.file(fd, from, name, child))
		}
	}
	own(fd, e)
	o.fail(e.Path, errors.Join(
		writeXattrs(fd, e.Xattrs), unix.UtimesNanoAt(fd, ".", e.Mtime.times(), 0), unix.Fchmod(fd, e.Mode)))
}

// subfolder is folder for the one called name, which is made if it isn't there.
func (o *outlet) subfolder(dir, from int, name string, e *entry) error {
	source := openBelow(from, name)
	if source < 0 {
		return errDamaged
	}
	defer unix.Close(source)
	child, err := openFolder(dir, name)
	if errors.Is(err, unix.EACCES) {
		return errInTheWay()
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if err := o.makeWay(dir, name, e.Path); err != nil {
			return err
		}
	}
	if err != nil {
		if err := unix.Mkdirat(dir, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		if child, err = openFolder(dir, name); err != nil {
			return err
		}
	}
	defer child.Close()
	o.folder(child, source, e)
	return nil
}

var errDamaged = errors.New("the snapshot is damaged: its content is missing or has another size")

// open makes sure that its owner may change a folder.
func open(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o700 == 0o700 || os.Geteuid() == 0 {
		return nil
	}
	return unix.Fchmod(fd, st.Mode&permissions|0o700)
}

// own gives a file back to its owner, which root alone can.
func own(fd int, e *entry) {
	if os.Geteuid() == 0 {
		unix.Fchown(fd, int(e.UID), int(e.GID)) // in a user namespace not all can be: they stay the caller's
	}
}

func (o *outlet) link(dir int, name string, e *entry) error {
	buffer := make([]byte, unix.PathMax)
	if n, err := unix.Readlinkat(dir, name, buffer); err == nil && string(buffer[:n]) == e.Target {
		return unix.UtimesNanoAt(dir, name, e.Mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err := o.inTheWay(dir, name, e.Path); err != nil {
		return err
	}
	return o.replace(dir, name, e.Path, func(temporary string) error {
		if err := unix.Symlinkat(e.Target, dir, temporary); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			unix.Fchownat(dir, temporary, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW)
		}
		return unix.UtimesNanoAt(dir, temporary, e.Mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// file makes the file called name what e says, unless it is that still.
func (o *outlet) file(dir, from int, name string, e *entry) error {
	var st unix.Stat_t
	there := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	first := o.made[e.Target]
	linking := e.Target != "" && first != inode{}
	switch {
	case there && linking && identityOf(&st).Inode == first:
		return nil
	case there && e.untouched(&st) && st.Mode&^permissions == unix.S_IFREG && (!linking || first == e.Seen.Inode):
		o.remember(e, &st)
		return nil
	}
	if err := o.inTheWay(dir, name, e.Path); err != nil {
		return err
	}
	if linking && o.replace(dir, name, e.Path, func(temporary string) error { return o.another(dir, temporary, e, first) }) == nil {
		return nil
	}
	return o.replace(dir, name, e.Path, func(temporary string) error { return o.make(dir, from, temporary, name, e) })
}

// remember says what the first name of a file is now.
func (o *outlet) remember(e *entry, st *unix.Stat_t) {
	if _, ok := o.made[e.Path]; ok {
		o.made[e.Path] = identityOf(st).Inode
	}
}

// another makes name another name of the file that this restore has made or found before.
func (o *outlet) another(dir int, name string, e *entry, first inode) error {
	file, err := o.root.OpenFile(e.Target, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return err
	}
	if identityOf(&st).Inode != first { // something else has taken its place
		return unix.ESTALE
	}
	return unix.Linkat(unix.AT_FDCWD, procPath(int(file.Fd())), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// make makes a new file, called temporary, of what the snapshot calls name.
func (o *outlet) make(dir, from int, temporary, name string, e *entry) error {
	source, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(errDamaged, err)
	}
	defer unix.Close(source)
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != e.Size {
		return errDamaged
	}
	fd, err := unix.Openat(dir, temporary, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if e.Size > 0 && unix.IoctlFileClone(fd, source) != nil {
		if err := copyBytes(o.ctx, fd, source, e.Size, o.buffer); err != nil {
			return err
		}
	}
	own(fd, e)
	if len(e.Xattrs) > 0 {
		o.fail(e.Path, writeXattrs(fd, e.Xattrs)) // the content is worth having without
	}
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fchmod(fd, e.Mode)); err != nil {
		return err
	}
	o.remember(e, &st)
	return unix.UtimesNanoAt(dir, temporary, e.Mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
}
