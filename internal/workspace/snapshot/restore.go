package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// Restore makes the folders of r exactly what they were in the snapshot id of a sandbox, which may be
// another than r's. What they are now is kept first, as the snapshot before: nothing is taken away or
// written over that is not in it. So what the snapshot doesn't know and before leaves out (ignored, or made
// while this runs) stays, and is in the way if it is where a file belongs. Folders that the snapshot has and r
// doesn't stay in it.
//
// Each file changes in one step. A restore that ends early, by an error or by force, can be done again.
func (s Store) Restore(ctx context.Context, sandbox, id string, r Request) (before Snapshot, err error) {
	dir, err := s.existing(sandbox, id)
	if err != nil {
		return Snapshot{}, err
	}
	r.Folders = slices.Clone(r.Folders)
	for i, f := range r.Folders {
		if _, err := os.Lstat(f.Path); errors.Is(err, os.ErrNotExist) {
			if err := workspace.MakeFolder(f.Path); err != nil {
				return Snapshot{}, err
			}
		}
		wanted, err := readRecord(recordOf(dir, f.Name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Snapshot{}, err
		}
		r.Folders[i].Ignored = unlessNeeded(f.Ignored, index(wanted))
	}
	if before, err = s.Create(ctx, r); err != nil {
		return Snapshot{}, err
	}
	var errs []error
	for _, f := range r.Folders {
		present, err := readRecord(recordOf(s.path(r.Sandbox, before.ID), f.Name))
		if err == nil {
			err = put(ctx, f, dir, present)
		}
		errs = append(errs, err)
	}
	return before, errors.Join(errs...)
}

// unlessNeeded is ignored for all but what a restore is about to write over.
func unlessNeeded(ignored func(string) bool, needed map[string]*entry) func(string) bool {
	if ignored == nil {
		return nil
	}
	return func(at string) bool {
		if e := needed[path.Clean(at)]; e != nil && e.Kind != kindLeft {
			return false
		}
		for ; at != ""; at = parent(at) {
			if ignored(at) {
				return true
			}
		}
		return false
	}
}

// parent is the folder that a path is in, with a slash; "" is the root.
func parent(at string) string { at, _ = path.Split(path.Clean(at)); return at }

// Export writes folders of a snapshot to other places, which must be empty or not there.
func (s Store) Export(ctx context.Context, sandbox, id string, folders []Folder) error {
	dir, err := s.existing(sandbox, id)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if err := os.MkdirAll(f.Path, 0o700); err != nil {
			return err
		}
		if names, err := os.ReadDir(f.Path); err != nil || len(names) > 0 {
			return errors.Join(err, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is not empty", f.Path), "name a folder that is empty or not there"))
		}
		if err := put(ctx, f, dir, nil); err != nil {
			return err
		}
	}
	return nil
}

// Fill makes folders that nobody has used yet what a snapshot has. All in them goes but what Ignored names at the top.
func (s Store) Fill(ctx context.Context, sandbox, id string, folders []Folder) error {
	dir, err := s.existing(sandbox, id)
	for i := 0; err == nil && i < len(folders); i++ {
		if err = empty(folders[i]); err == nil {
			err = put(ctx, folders[i], dir, nil)
		}
	}
	return err
}

func empty(f Folder) error {
	root, err := workspace.OpenFolder(f.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := root.Readdirnames(-1)
	for i := 0; err == nil && i < len(names); i++ {
		if f.Ignored == nil || !f.Ignored(names[i]) {
			err = hostile.RemoveAt(int(root.Fd()), names[i], nil)
		}
	}
	return err
}

// put makes the folder f what the snapshot in dir has, if it has one. present is what it is now.
func put(ctx context.Context, f Folder, dir string, present []*entry) error {
	entries, err := readRecord(recordOf(dir, f.Name))
	if errors.Is(err, os.ErrNotExist) {
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
	o := &outlet{
		ctx: ctx, root: int(root.Fd()), from: treeOf(dir, f.Name), dir: -1, buffer: make([]byte, bufferSize),
		present: index(present), wanted: index(entries), failed: make(map[string]bool),
	}
	defer o.leave()
	o.sweep(present)
	o.each(entries, o.one)
	slices.Reverse(entries)
	o.each(entries, o.finish)
	if err := errors.Join(o.errs...); err != nil {
		return fmt.Errorf("restoring %s: %w", f.Path, err)
	}
	return nil
}

// outlet brings the files of a snapshot into a folder.
type outlet struct {
	ctx             context.Context
	root            int    // the folder
	from            string // the tree of the snapshot
	present, wanted map[string]*entry
	failed          map[string]bool // where nothing can be done below
	errs            []error
	given           bool // it is given up
	at              string
	dir             int // the folder at is open, or -1
	buffer          []byte
}

// maxErrors is how many errors are told apart.
const maxErrors = 10

// each does something with all entries. An error is put on record, and the rest goes on but where it can't.
func (o *outlet) each(entries []*entry, do func(dir int, name string, e *entry) error) {
	for _, e := range entries {
		if o.given || o.failed[e.Path] || o.failed[above(e.Path)] {
			o.failed[e.Path] = true
			continue
		}
		dir, err := o.enter(above(e.Path))
		if err == nil {
			err = do(dir, path.Base("./"+e.Path), e)
		}
		if err == nil && o.ctx.Err() != nil {
			err, o.given = context.Cause(o.ctx), true
		}
		if err == nil {
			continue
		}
		o.failed[e.Path] = true
		for _, hopeless := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, context.Canceled} {
			o.given = o.given || errors.Is(err, hopeless)
		}
		if len(o.errs) < maxErrors {
			o.errs = append(o.errs, fmt.Errorf("%q: %w", e.Path, err))
		} else if len(o.errs) == maxErrors {
			o.errs = append(o.errs, errors.New("and more"))
		}
	}
}

// above is the folder that a path is in; "" is the root, and in itself.
func above(at string) string {
	if at = path.Dir(at); at == "." {
		return ""
	}
	return at
}

// enter opens a folder, which stays open until the next.
func (o *outlet) enter(at string) (_ int, err error) {
	if o.dir < 0 || o.at != at {
		o.leave()
		o.at = at
		o.dir, err = openIn(o.root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	return o.dir, err
}

func (o *outlet) leave() {
	if o.dir >= 0 {
		unix.Close(o.dir)
	}
	o.dir = -1
}

// sweep takes away what is there now and does not belong there. What the snapshot left out stays, with all below.
func (o *outlet) sweep(present []*entry) {
	stays := make(map[string]bool)
	o.each(present, func(_ int, _ string, e *entry) error {
		w := o.wanted[e.Path]
		stays[e.Path] = e.Kind == kindLeft || w != nil && w.Kind == kindLeft || e.Path != "" && stays[above(e.Path)]
		if e.Kind != kindFolder || stays[e.Path] || e.Mode&0o700 == 0o700 || os.Geteuid() == 0 {
			return nil
		}
		fd, err := o.enter(e.Path)
		if err != nil {
			return err
		}
		return unix.Fchmod(fd, e.Mode|0o700)
	})
	present = slices.Clone(present)
	slices.Reverse(present)
	o.each(present, func(dir int, name string, e *entry) error {
		if w := o.wanted[e.Path]; stays[e.Path] || w != nil && w.Kind == e.Kind {
			return nil
		}
		flags := 0
		if e.Kind == kindFolder {
			flags = unix.AT_REMOVEDIR
		}
		err := unix.Unlinkat(dir, name, flags)
		for _, stays := range []error{unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.EISDIR, unix.ENOTDIR} {
			if errors.Is(err, stays) {
				return nil
			}
		}
		return err
	})
}

// one makes what is called name what e says.
func (o *outlet) one(dir int, name string, e *entry) error {
	if e.Kind == kindLeft || e.Kind == kindSpecial || e.Path == "" {
		return nil
	}
	var st unix.Stat_t
	there := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	now := o.present[e.Path]
	if there && (now == nil || now.Kind != e.Kind) {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "something is in the way that is ignored, can't be read, or was made meanwhile"),
			"move it aside, and restore again")
	}
	switch {
	case e.Kind == kindFolder && there:
		_, err := o.enter(e.Path)
		return err
	case e.Kind == kindFolder:
		return unix.Mkdirat(dir, name, 0o700)
	case e.Kind == kindLink:
		return o.link(dir, name, e)
	case e.Target != "" && !o.failed[e.Target]:
		if err := o.another(dir, name, e, identityOf(&st)); err == nil {
			return nil
		}
	case there && e.untouched(&st):
		return nil
	}
	return replace(dir, name, func(temporary string) error { return o.file(dir, temporary, e) })
}

// replace puts what make makes in the place of what is called name, in one step. What a killed restore leaves is in no
// snapshot, and goes with the next.
func replace(dir int, name string, make func(temporary string) error) error {
	temporary := ".forage-restore-" + rand.Text()
	err := make(temporary)
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, name)
	}
	if gone := unix.Unlinkat(dir, temporary, 0); !errors.Is(gone, unix.ENOENT) { // rename(2) of two names of one file
		err = errors.Join(err, gone)
	}
	return err
}

func (o *outlet) link(dir int, name string, e *entry) error {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buffer)
	if err == nil && string(buffer[:n]) == e.Target {
		return unix.UtimesNanoAt(dir, name, e.times(), unix.AT_SYMLINK_NOFOLLOW)
	}
	return replace(dir, name, func(temporary string) error {
		if err := unix.Symlinkat(e.Target, dir, temporary); err != nil {
			return err
		}
		own(dir, temporary, e)
		return unix.UtimesNanoAt(dir, temporary, e.times(), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// another makes name another name of a file that was restored before, unless it is that already.
func (o *outlet) another(dir int, name string, e *entry, now identity) error {
	first, err := openIn(o.root, e.Target, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(first)
	var st unix.Stat_t
	if err := unix.Fstat(first, &st); err != nil || identityOf(&st) == now {
		return err
	}
	return replace(dir, name, func(temporary string) error {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", first), dir, temporary, unix.AT_SYMLINK_FOLLOW)
	})
}

// file makes a new file of what the snapshot has.
func (o *outlet) file(dir int, name string, e *entry) error {
	source, err := unix.Open(filepath.Join(o.from, e.Path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(errDamaged, err)
	}
	defer unix.Close(source)
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != e.Size {
		return errors.Join(errDamaged, err)
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if e.Size > 0 && unix.IoctlFileClone(fd, source) != nil {
		if err := copyBytes(o.ctx, fd, source, e.Size, o.buffer); err != nil {
			return err
		}
	}
	own(dir, name, e)
	return errors.Join(unix.Fchmod(fd, e.Mode), unix.UtimesNanoAt(dir, name, e.times(), unix.AT_SYMLINK_NOFOLLOW))
}

// finish gives a folder its own attributes, when all in it is done.
func (o *outlet) finish(_ int, _ string, e *entry) error {
	if e.Kind != kindFolder {
		return nil
	}
	fd, err := o.enter(e.Path)
	if err != nil {
		return err
	}
	own(fd, ".", e)
	return errors.Join(unix.UtimesNanoAt(fd, ".", e.times(), 0), unix.Fchmod(fd, e.Mode))
}

// own gives a file back to its owner, which root alone can. In a user namespace not all can be: they stay the caller's.
func own(dir int, name string, e *entry) {
	if os.Geteuid() == 0 {
		_ = unix.Fchownat(dir, name, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW)
	}
}
