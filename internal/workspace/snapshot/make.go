package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

const (
	maxDepth = 256       // folders in one another
	maxPath  = 3000      // bytes of a path, which must fit below the store's: path_resolution(7)
	maxHeld  = 512 << 20 // bytes of names and link targets, which are held in memory and in the record
	perEntry = 100       // that count for each
	maxNames = 1 << 20   // files in one folder
)

// budget bounds what all folders of one snapshot take.
type budget struct {
	held, copied, added int64
	maxCopied           int64 // 0 is no bound
}

func (b *budget) hold(bytes int) error {
	if b.held += int64(bytes); b.held > maxHeld {
		return forage.Errorf(forage.ErrRefused, "there are too many files: their names and links have more than %d bytes", maxHeld)
	}
	return nil
}

func (b *budget) copying(bytes int64) error {
	if b.copied += bytes; b.maxCopied > 0 && b.copied > b.maxCopied {
		return forage.Errorf(forage.ErrRefused, "more than %d bytes would have to be copied", b.maxCopied)
	}
	return nil
}

// maker goes through one folder, and keeps what it finds.
type maker struct {
	ctx     context.Context
	folder  Folder
	now     func() time.Time
	budget  *budget
	root    int               // the folder
	to, old string            // trees of the snapshot that is made, and of the one before
	before  map[string]*entry // of the snapshot before
	entries []*entry
	first   map[inode]*entry // first names of files that have several
	buffer  []byte
}

// run goes through all of the folder.
func (m *maker) run() ([]*entry, error) {
	root, err := workspace.OpenFolder(m.folder.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m.root, m.first, m.buffer = int(root.Fd()), make(map[inode]*entry), make([]byte, bufferSize)
	return m.entries, m.visit("")
}

// visit takes in a folder and all below.
func (m *maker) visit(at string) error {
	if strings.Count(at, "/") >= maxDepth || len(at) > maxPath {
		return m.leave(at, "too many folders in one another")
	}
	fd, err := openIn(m.root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return m.without(at, err)
	}
	dir := os.NewFile(uintptr(fd), at)
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	m.entries = append(m.entries, newEntry(at, kindFolder, &st))
	if err := os.Mkdir(filepath.Join(m.to, at), 0o700); err != nil {
		return err
	}
	names, err := dir.Readdirnames(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(names) == maxNames {
		return forage.Errorf(forage.ErrRefused, "%q has more than %d files", path.Join(m.folder.Path, at), maxNames)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := m.one(fd, path.Join(at, name), name); err != nil {
			return err
		}
	}
	return nil
}

// one takes in what is called name in a folder.
func (m *maker) one(dir int, at, name string) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	if err := m.budget.hold(len(at) + perEntry); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return m.without(at, err)
	}
	kind, asked := st.Mode&unix.S_IFMT, at
	if kind == unix.S_IFDIR {
		asked += "/"
	}
	if m.folder.Ignored != nil && m.folder.Ignored(asked) {
		return m.leave(at, "")
	}
	switch kind {
	case unix.S_IFDIR:
		return m.visit(at)
	case unix.S_IFLNK:
		return m.link(dir, at, name, &st)
	case unix.S_IFREG:
		return m.file(dir, at, name, &st)
	default:
		m.entries = append(m.entries, &entry{Path: at, Kind: kindSpecial, Target: "neither a file nor a folder"})
		return nil
	}
}

func (m *maker) link(dir int, at, name string, st *unix.Stat_t) error {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buffer)
	if err != nil {
		return m.without(at, err)
	}
	e := newEntry(at, kindLink, st)
	e.Target = string(buffer[:n])
	m.entries = append(m.entries, e)
	if err := m.budget.hold(n); err != nil {
		return err
	}
	return os.Symlink(e.Target, filepath.Join(m.to, at))
}

// file takes a file over from the snapshot before, or reads it.
func (m *maker) file(dir int, at, name string, st *unix.Stat_t) error {
	if first := m.first[identityOf(st).Inode]; first != nil && first.Seen == identityOf(st) {
		e := *first
		e.Path, e.Target = at, first.Path
		m.entries = append(m.entries, &e)
		return os.Link(filepath.Join(m.to, first.Path), filepath.Join(m.to, at))
	}
	e := newEntry(at, kindFile, st)
	if old := m.before[at]; !old.untouched(st) || !m.linked(old) {
		fd, err := openIn(dir, name, unix.O_RDONLY)
		if err != nil {
			return m.without(at, err)
		}
		defer unix.Close(fd)
		if err := unix.Fstat(fd, st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return m.leave(at, "became something else while it was read")
		}
		e = newEntry(at, kindFile, st)
		if err := m.read(fd, e); err != nil {
			return err
		}
		var after unix.Stat_t
		if err := unix.Fstat(fd, &after); err != nil {
			return err
		}
		// What changed meanwhile is kept as it was read: each of its parts was there.
		e.Racy = workspace.Racy(st.Ctim, m.now()) || identityOf(&after) != e.Seen || after.Size != e.Size
	}
	m.entries = append(m.entries, e)
	if st.Nlink > 1 {
		m.first[e.Seen.Inode] = e
	}
	return nil
}

// linked makes a file of the snapshot before one of this one too; false: it isn't there whole, or has too many names.
func (m *maker) linked(e *entry) bool {
	from := filepath.Join(m.old, e.Path)
	info, err := os.Lstat(from)
	return err == nil && info.Mode().IsRegular() && info.Size() == e.Size && os.Link(from, filepath.Join(m.to, e.Path)) == nil
}

// read copies the content of fd.
func (m *maker) read(fd int, e *entry) error {
	file := filepath.Join(m.to, e.Path)
	target, err := unix.Open(file, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o400|e.Mode&0o100)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if e.Size == 0 || unix.IoctlFileClone(target, fd) != nil {
		if err := m.budget.copying(e.Size); err != nil {
			return err
		}
		if err := copyBytes(m.ctx, target, fd, e.Size, m.buffer); err != nil {
			return err
		}
	}
	var kept unix.Stat_t
	if err := unix.Fstat(target, &kept); err != nil {
		return err
	}
	e.Size = kept.Size
	m.budget.added += e.Size
	return unix.UtimesNanoAt(unix.AT_FDCWD, file, e.times(), unix.AT_SYMLINK_NOFOLLOW)
}

// without goes on without what can't be read, and names it. What is gone, or became something else, is not there.
func (m *maker) without(at string, err error) error {
	if at == "" {
		return &os.PathError{Op: "open", Path: m.folder.Path, Err: err}
	}
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return m.leave(at, "may not be read")
	case errors.Is(err, unix.EWOULDBLOCK): // fcntl(2), F_SETLEASE: waiting would take as long as its holder likes
		return m.leave(at, "is held by a lease")
	}
	for _, harmless := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE, unix.ENXIO, unix.EINVAL} {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	return err
}

func (m *maker) leave(at, why string) error {
	m.entries = append(m.entries, &entry{Path: at, Kind: kindLeft, Target: why})
	return nil
}
