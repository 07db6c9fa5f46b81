package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

// What a folder may have; an agent that makes more makes it for nobody.
const (
	maxDepth   = 256
	maxEntries = 5_000_000
)

// walker goes through one folder, from descriptor to descriptor: whatever is renamed or replaced
// by a link meanwhile, it stays within.
type walker struct {
	in      *intake
	folder  Folder
	before  *contents // the snapshot before this one
	needed  *contents // is kept though it is ignored
	entries []*entry
	linked  map[inode]met // files that have several names
	others  [][2]*entry   // their other names, each with the first
}

// met is the first name of a file that has several.
type met struct {
	first *entry
	seen  identity // when it was met: first.seen is its reader's
}

// take goes through f and keeps its contents.
func (in *intake) take(f Folder, before, needed *contents) (*contents, error) {
	root, err := workspace.OpenFolder(f.Path)
	if err != nil {
		return nil, err
	}
	w := &walker{in: in, folder: f, before: before, needed: needed, linked: make(map[inode]met)}
	stop := in.start()
	in.fail(w.visit(root, "", false, nil))
	if err := stop(); err != nil {
		return nil, err
	}
	w.settle()
	w.entries = slices.DeleteFunc(w.entries, func(e *entry) bool { return e.kind == 0 }) // gone meanwhile
	return &contents{name: f.Name, entries: w.entries}, nil
}

// openFolder opens a folder, and nothing else, by its name in another one.
func openFolder(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// visit takes in dir, which it closes, and all below. ignored says that this folder is, and is
// only looked through for what is needed; was is what it is like when it isn't unlocked.
func (w *walker) visit(dir *os.File, at string, ignored bool, was *unix.Stat_t) error {
	defer dir.Close()
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if was != nil {
		st.Mode = was.Mode
	}
	xattrs := readXattrs(fd)
	w.add(at, kindFolder, &st).xattrs = xattrs
	if err := w.in.hold(bytesOf(xattrs)); err != nil {
		return err
	}
	names, err := w.names(dir, at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.one(fd, path.Join(at, name), name, ignored, strings.Count(at, "/")); err != nil {
			return err
		}
	}
	return nil
}

// names is what is in dir, sorted, and within the bounds.
func (w *walker) names(dir *os.File, at string) ([]string, error) {
	var names []string
	for {
		some, err := dir.Readdirnames(4096)
		names = append(names, some...)
		if len(names)+len(w.entries) > maxEntries {
			return nil, forage.Errorf(forage.ErrRefused, "there are more than %d files", maxEntries)
		}
		held := 0
		for _, name := range some {
			held += len(at) + len("/") + len(name)
		}
		if err := w.in.hold(held); err != nil {
			return nil, err
		}
		if errors.Is(err, io.EOF) || len(some) == 0 {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// one takes in what is called name in the folder dir.
func (w *walker) one(dir int, at, name string, ignored bool, depth int) error {
	if err := w.in.failed(); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EACCES) && at != name { // a folder that may be listed and not entered; not that of the snapshot itself
		w.leave(at, "may not be read")
		return nil
	}
	if err != nil {
		return gone(err)
	}
	isFolder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !ignored && w.folder.Ignored != nil {
		if isFolder {
			ignored = w.folder.Ignored(at + "/")
		} else {
			ignored = w.folder.Ignored(at)
		}
	}
	if e := w.needed.find(at); ignored && (e == nil || e.kind == kindLeft) {
		w.leave(at, "")
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.below(dir, at, name, ignored, depth, &st)
	case unix.S_IFLNK:
		return w.link(dir, at, name, &st)
	case unix.S_IFREG:
		return w.file(dir, at, name, &st)
	default:
		w.leave(at, "neither a file nor a folder")
		return nil
	}
}

func (w *walker) below(dir int, at, name string, ignored bool, depth int, st *unix.Stat_t) error {
	if depth >= maxDepth {
		w.leave(at, "too many folders in one another")
		return nil
	}
	relock, ok := unlocked(dir, name, st, searchable)
	if ok {
		defer relock()
	} else {
		st = nil
	}
	child, err := openFolder(dir, name)
	if errors.Is(err, unix.EACCES) {
		w.leave(at, "may not be read")
		return nil
	}
	if err != nil {
		return gone(err)
	}
	return w.visit(child, at, ignored, st)
}

func (w *walker) link(dir int, at, name string, st *unix.Stat_t) error {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buffer)
	if errors.Is(err, unix.EINVAL) { // it is no link any more
		err = unix.ENOENT
	}
	if err != nil {
		return gone(err)
	}
	w.add(at, kindLink, st).target = string(buffer[:n])
	return w.in.hold(n)
}

// file takes a file over from the snapshot before, or has it read.
func (w *walker) file(dir int, at, name string, st *unix.Stat_t) error {
	e := w.add(at, kindFile, st)
	if w.isOther(e, st) {
		return nil
	}
	if old := w.before.find(at); old.untouched(e) && (w.in.listing || w.in.has(old.digest, old.size)) {
		e.digest, e.xattrs = old.digest, old.xattrs
		return nil
	}
	relock, ok := unlocked(dir, name, st, readable)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	var xattrs []xattr
	if ok {
		if err == nil {
			xattrs = readXattrs(fd) // the kernel goes by the mode for each of them, whatever is open
		}
		relock()
		if met, several := w.linked[inodeOf(st)]; several && met.first == e && unix.Fstat(fd, st) == nil { // it has a new ctime
			met.seen = identityOf(st)
			w.linked[inodeOf(st)] = met
		}
	}
	switch {
	case errors.Is(err, unix.EACCES):
		e.leave("may not be read")
		return nil
	case errors.Is(err, unix.EWOULDBLOCK): // fcntl(2), F_SETLEASE: waiting would take as long as its holder likes
		e.leave("is held by a lease")
		return nil
	case err != nil:
		e.kind = 0
		return gone(err)
	}
	w.in.jobs <- job{os.NewFile(uintptr(fd), at), e, ok, xattrs}
	return nil
}

// isOther says whether e is another name of a file that was met before, and was not touched since: then it is not read again.
func (w *walker) isOther(e *entry, st *unix.Stat_t) bool {
	if st.Nlink < 2 {
		return false
	}
	before, ok := w.linked[inodeOf(st)]
	if !ok {
		w.linked[inodeOf(st)] = met{e, e.seen}
		return false
	}
	if before.seen != e.seen {
		return false
	}
	w.others = append(w.others, [2]*entry{e, before.first})
	return true
}

// settle gives the other names of files what was read of the first.
func (w *walker) settle() {
	for _, pair := range w.others {
		other, first := pair[0], pair[1]
		at := other.path
		if *other = *first; first.kind == kindFile {
			other.target = first.path
		}
		other.path = at
	}
}

// untouched says whether the kernel tells that e is the file that old was, as it was read.
func (old *entry) untouched(e *entry) bool {
	return old != nil && old.kind == kindFile && !old.racy &&
		old.seen == e.seen && old.size == e.size && old.mtime == e.mtime
}

// gone swallows the error of a name that was taken away, or became something else, since it was read.
func gone(err error) error {
	for _, harmless := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE, unix.ENXIO} {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	return err
}

func (w *walker) add(at string, k kind, st *unix.Stat_t) *entry {
	e := &entry{path: at, kind: k}
	e.look(st)
	w.entries = append(w.entries, e)
	return e
}

func (w *walker) leave(at, why string) {
	w.entries = append(w.entries, &entry{path: at, kind: kindLeft, target: why})
}

// leave makes an entry one of kindLeft.
func (e *entry) leave(why string) { *e = entry{path: e.path, kind: kindLeft, target: why} }

// permissions are the bits of a mode that are kept.
const permissions = 0o777

// look takes over what stat(2) says.
func (e *entry) look(st *unix.Stat_t) {
	e.mode, e.uid, e.gid = st.Mode&permissions, st.Uid, st.Gid
	e.mtime = stamp{st.Mtim.Sec, st.Mtim.Nsec}
	if e.kind == kindFile {
		e.size, e.seen = st.Size, identityOf(st)
	}
}

func identityOf(st *unix.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, stamp{st.Ctim.Sec, st.Ctim.Nsec}}
}

// job is a file to be read.
type job struct {
	file   *os.File
	e      *entry
	closed bool // its own mode closes it to its owner: xattrs were read before
	xattrs []xattr
}

// start makes the readers; stop waits for them, and says what went wrong.
func (in *intake) start() (stop func() error) {
	in.jobs = make(chan job, 16)
	var readers sync.WaitGroup
	for range parallel() {
		readers.Go(func() {
			c := newCopier()
			for j := range in.jobs {
				if in.failed() == nil {
					if err := in.keep(c, j); err != nil {
						in.fail(fmt.Errorf("keeping contents: %w", err))
					}
				}
				j.file.Close()
			}
		})
	}
	return func() error {
		close(in.jobs)
		readers.Wait()
		return in.failed()
	}
}

// failed is the first error, or why to end early.
func (in *intake) failed() error {
	if in.ctx.Err() != nil {
		return context.Cause(in.ctx)
	}
	return nil
}

// fail has all who read end.
func (in *intake) fail(err error) {
	if err != nil {
		in.giveUp(err)
	}
}
