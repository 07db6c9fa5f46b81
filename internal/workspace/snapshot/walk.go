package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

const (
	maxDepth = 256       // folders in one another
	maxHeld  = 512 << 20 // bytes of names, targets and attributes, which are held in memory and in the record
	perEntry = 100       // that count for each
)

// budget bounds what all folders of one snapshot take.
type budget struct {
	held, copied, added int64
	maxCopied           int64 // 0 is no bound
}

func (b *budget) hold(bytes int) error {
	if b.held += int64(bytes); b.held > maxHeld {
		return forage.Errorf(forage.ErrRefused, "there are too many files: their names, links and attributes have more than %d bytes", maxHeld)
	}
	return nil
}

func (b *budget) copying(bytes int64) error {
	if b.copied += bytes; b.maxCopied > 0 && b.copied > b.maxCopied {
		return forage.Errorf(forage.ErrRefused, "more than %d bytes would have to be copied", b.maxCopied)
	}
	return nil
}

// folders are one folder in three places: of the workspace, of the snapshot that is made, and of the one before. -1: there is none.
type folders struct {
	from    *os.File
	to, old int
}

func (d folders) close() {
	if d.from != nil {
		d.from.Close()
	}
	for _, fd := range []int{d.to, d.old} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// walker goes through one folder, from descriptor to descriptor: whatever is renamed or replaced
// by a link meanwhile, it stays within.
type walker struct {
	ctx     context.Context
	folder  Folder
	now     func() time.Time
	budget  *budget
	tree    *os.Root          // what is made; nil: digests are wanted, and no copies
	before  map[string]*entry // the snapshot before this one
	needed  map[string]*entry // is kept though it is ignored
	entries []*entry
	first   map[inode]*entry // first names of files that have several
	buffer  []byte
	cannot  bool // the file systems share no blocks
}

// openFolder opens a folder, and nothing else, by its name in another one.
func openFolder(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// visit takes in a folder and all below. ignored says that it is, and is only looked through for what is needed.
func (w *walker) visit(d folders, at string, ignored bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.from.Fd()), &st); err != nil {
		return err
	}
	w.add(at, kindFolder, &st).Xattrs = readXattrs(int(d.from.Fd()))
	names, err := w.names(d.from, at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.one(d, path.Join(at, name), name, ignored); err != nil {
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
		held := 0
		for _, name := range some {
			held += len(at) + len(name) + perEntry
		}
		if err := w.budget.hold(held); err != nil {
			return nil, err
		}
		names = append(names, some...)
		if errors.Is(err, io.EOF) || len(some) == 0 {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// one takes in what is called name in a folder.
func (w *walker) one(d folders, at, name string, ignored bool) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(d.from.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EACCES) && at != name { // a folder that may be listed and not entered; not that of the snapshot itself
		return w.leave(at, unreadable)
	}
	if err != nil {
		return gone(err)
	}
	kind := st.Mode & unix.S_IFMT
	if !ignored && w.folder.Ignored != nil {
		if kind == unix.S_IFDIR {
			ignored = w.folder.Ignored(at + "/")
		} else {
			ignored = w.folder.Ignored(at)
		}
	}
	if e := w.needed[at]; ignored && (e == nil || e.Kind == kindLeft) {
		return w.leave(at, "")
	}
	switch kind {
	case unix.S_IFDIR:
		return w.below(d, at, name, ignored)
	case unix.S_IFLNK:
		return w.link(d, at, name, &st)
	case unix.S_IFREG:
		return w.file(d, at, name, &st)
	default:
		return w.leave(at, "neither a file nor a folder")
	}
}

const unreadable = "may not be read"

func (w *walker) below(d folders, at, name string, ignored bool) error {
	if strings.Count(at, "/") >= maxDepth {
		return w.leave(at, "too many folders in one another")
	}
	from, err := openFolder(int(d.from.Fd()), name)
	if errors.Is(err, unix.EACCES) {
		return w.leave(at, unreadable)
	}
	if err != nil {
		return gone(err)
	}
	next := folders{from: from, to: -1, old: -1}
	defer func() { next.close() }()
	if d.old >= 0 {
		next.old = openBelow(d.old, name)
	}
	if d.to >= 0 {
		if err := unix.Mkdirat(d.to, name, 0o700); err != nil {
			return err
		}
		if next.to = openBelow(d.to, name); next.to < 0 {
			return errors.New("a folder of the snapshot is gone")
		}
	}
	return w.visit(next, at, ignored)
}

// openBelow opens a folder in one of our own; -1: there is none.
func openBelow(dir int, name string) int {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func (w *walker) link(d folders, at, name string, st *unix.Stat_t) error {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.from.Fd()), name, buffer)
	if errors.Is(err, unix.EINVAL) { // it is no link any more
		return nil
	}
	if err != nil {
		return gone(err)
	}
	e := w.add(at, kindLink, st)
	e.Target = string(buffer[:n])
	if err := w.budget.hold(n); err != nil || d.to < 0 {
		return err
	}
	return unix.Symlinkat(e.Target, d.to, name)
}

// file takes a file over from the snapshot before, or reads it.
func (w *walker) file(d folders, at, name string, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		if first := w.first[identityOf(st).Inode]; first != nil && first.Kind == kindFile && first.Seen == identityOf(st) {
			return w.other(first, at)
		}
	}
	if old := w.before[at]; old.untouched(st) && (w.tree == nil || linked(d, name, old)) {
		e := w.add(at, kindFile, st)
		e.Digest, e.Xattrs = old.Digest, old.Xattrs
		w.remember(st, e)
		return w.budget.hold(bytesOf(e.Xattrs))
	}
	fd, err := unix.Openat(int(d.from.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EACCES):
		return w.leave(at, unreadable)
	case errors.Is(err, unix.EWOULDBLOCK): // fcntl(2), F_SETLEASE: waiting would take as long as its holder likes
		return w.leave(at, "is held by a lease")
	case err != nil:
		return gone(err)
	}
	defer unix.Close(fd)
	e := w.add(at, kindFile, st)
	w.remember(st, e)
	return w.keep(d.to, fd, name, e)
}

func (w *walker) remember(st *unix.Stat_t, e *entry) {
	if st.Nlink > 1 {
		w.first[identityOf(st).Inode] = e
	}
}

// other takes in another name of a file.
func (w *walker) other(first *entry, at string) error {
	e := *first
	e.Path, e.Target = at, first.Path
	w.entries = append(w.entries, &e)
	if w.tree == nil {
		return nil
	}
	return w.tree.Link(first.Path, at)
}

// linked makes a file of the snapshot before one of this one too; false: it isn't there whole, or has too many names.
func linked(d folders, name string, e *entry) bool {
	var st unix.Stat_t
	return d.old >= 0 && unix.Fstatat(d.old, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		st.Size == e.Size && unix.Linkat(d.old, name, d.to, name, 0) == nil
}

// readings is how often a file is read that changes meanwhile.
const readings = 3

// keep reads a file until it has not changed meanwhile, and fills in its entry. One that never holds still
// is kept as it was read last: each of its parts was there.
func (w *walker) keep(to, fd int, name string, e *entry) error {
	for n := 1; ; n++ {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return err
		}
		if before.Mode&unix.S_IFMT != unix.S_IFREG {
			e.leave("became something else while it was read")
			return nil
		}
		e.look(&before)
		e.Racy = workspace.Racy(before.Ctim, w.now())
		e.Xattrs = readXattrs(fd)
		err := w.budget.hold(bytesOf(e.Xattrs))
		if err == nil {
			err = w.content(to, fd, name, e)
		}
		if err == nil {
			err = unix.Fstat(fd, &after)
		}
		shrank := errors.Is(err, errShrank)
		if err != nil && !shrank {
			return err
		}
		if err == nil && before.Size == after.Size && before.Mtim == after.Mtim && before.Ctim == after.Ctim {
			return nil
		}
		e.Racy = true
		if n == readings && !shrank {
			return nil
		}
		if to >= 0 {
			if err := unix.Unlinkat(to, name, 0); err != nil {
				return err
			}
		}
		if n == readings {
			e.leave("does not hold still")
			return nil
		}
	}
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
	e := &entry{Path: at, Kind: k}
	e.look(st)
	w.entries = append(w.entries, e)
	return e
}

func (w *walker) leave(at, why string) error {
	w.entries = append(w.entries, &entry{Path: at, Kind: kindLeft, Target: why})
	return nil
}

// leave makes an entry one of kindLeft.
func (e *entry) leave(why string) { *e = entry{Path: e.Path, Kind: kindLeft, Target: why} }
