package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
)

// kind is what an entry is.
type kind byte

const (
	kindFile    kind = 'f'
	kindFolder  kind = 'd'
	kindLink    kind = 'l'
	kindSpecial kind = 's' // a socket, FIFO or device: not kept, and has no content to lose
	kindLeft    kind = '-' // not kept: restoring leaves alone what is at this path
)

// entry is one file, folder or link, as stat(2) said. A record is a JSON list of them, parents first.
type entry struct {
	Path     string // relative to the folder, with slashes; "" is the folder itself
	Kind     kind
	Mode     uint32 // permission bits alone
	UID, GID uint32
	// Target is where a link leads. Of a file it is the first of its names, if this is another. Of what is not kept it
	// says why; "" is: it is ignored.
	Target string
	Size   int64
	Mtime  unix.Timespec
	Seen   identity
	Racy   bool // so new when it was read that a later change may have left no trace
}

// times leave the time of the last access alone.
func (e *entry) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, e.Mtime}
}

// inode is a file, whatever it is called.
type inode struct{ Dev, Ino uint64 }

// identity is how the kernel tells that a file is the same and was not touched. No program can set the ctime.
type identity struct {
	Inode inode
	Ctime unix.Timespec
}

func identityOf(st *unix.Stat_t) identity {
	return identity{inode{uint64(st.Dev), st.Ino}, st.Ctim}
}

// permissions are the bits of a mode that are kept.
const permissions = 0o777

func newEntry(at string, k kind, st *unix.Stat_t) *entry {
	e := &entry{Path: at, Kind: k, Mode: st.Mode & permissions, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim}
	if k == kindFile {
		e.Size, e.Seen = st.Size, identityOf(st)
	}
	return e
}

// untouched says whether st is of the file that e was read from, unchanged.
func (e *entry) untouched(st *unix.Stat_t) bool {
	return e != nil && e.Kind == kindFile && !e.Racy && st.Mode&^permissions == unix.S_IFREG &&
		e.Seen == identityOf(st) && e.Size == st.Size && e.Mtime == st.Mtim && e.Mode == st.Mode&permissions
}

// index finds entries by path.
func index(entries []*entry) map[string]*entry {
	found := make(map[string]*entry, len(entries))
	for _, e := range entries {
		found[e.Path] = e
	}
	return found
}

// writeRecord writes names as in a URL: they need not be UTF-8.
func writeRecord(file string, entries []*entry) error {
	list := make([]entry, len(entries))
	for i, e := range entries {
		list[i] = *e
		list[i].Path, list[i].Target = url.PathEscape(e.Path), url.PathEscape(e.Target)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func readRecord(file string) ([]*entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var entries []*entry
	err = json.Unmarshal(text, &entries)
	for _, e := range entries {
		var bad, worse error
		e.Path, bad = url.PathUnescape(e.Path)
		e.Target, worse = url.PathUnescape(e.Target)
		err = errors.Join(err, bad, worse)
	}
	if err != nil || len(entries) == 0 {
		return nil, fmt.Errorf("%s is damaged: %w", file, errors.Join(err, errDamaged))
	}
	return entries, nil
}

var errDamaged = errors.New("the snapshot is damaged: its content is missing or has another size")

func treeOf(dir, folder string) string {
	return filepath.Join(dir, strings.ReplaceAll(folder, "/", "."))
}
func recordOf(dir, folder string) string { return treeOf(dir, folder) + ".stat" }

// openIn opens a path in a folder, through no link. A FIFO opens at once.
func openIn(folder int, at string, flags uint64) (int, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK
	}
	return hostile.OpenBelow(folder, cmp.Or(at, "."), flags)
}

const bufferSize = 1 << 20

// copyBytes makes target, which is empty, what fd has, at most size bytes. Holes stay holes. It is
// shorter if the file has become so.
func copyBytes(ctx context.Context, target, fd int, size int64, buffer []byte) error {
	at, stop := int64(0), int64(0) // stop is where a hole begins
	for at < size {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if at >= stop {
			data, err := unix.Seek(fd, at, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) { // a hole, or the end
				last, err := unix.Seek(fd, 0, unix.SEEK_END)
				if err != nil {
					return err
				}
				at = min(size, last)
				break
			}
			if err == nil {
				at = min(size, data)
				stop, err = unix.Seek(fd, at, unix.SEEK_HOLE)
			}
			if err != nil || stop <= at { // it knows no holes
				stop = size
			}
		}
		n, err := unix.Pread(fd, buffer[:min(int64(len(buffer)), min(stop, size)-at)], at)
		if n > 0 {
			n, err = unix.Pwrite(target, buffer[:n], at)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if err == nil && n == 0 {
			break
		}
		at += int64(max(n, 0))
	}
	return unix.Ftruncate(target, at)
}
