package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// kind is what an entry is.
type kind byte

const (
	kindFile   kind = 'f'
	kindFolder kind = 'd'
	kindLink   kind = 'l'
	kindLeft   kind = '-' // is there, and is no part of the snapshot: restoring leaves alone what is at this path
)

// entry is one file, folder or link, as stat(2) said. A record is a list of them, parents first, in JSON, where what may be no UTF-8 is as in a URL.
type entry struct {
	Path     string // relative to the folder, with slashes; "" is the folder itself
	Kind     kind
	Mode     uint32 // permission bits alone
	UID, GID uint32
	Target   string // of a link; of a file: the first name of it, if this is another; of kindLeft: why, "" where it is ignored
	Xattrs   []xattr
	Size     int64
	Mtime    stamp
	Seen     identity
	Racy     bool   // so new when it was read that a later change may have left no trace
	Digest   string // of a file's content; in listings alone
}

// stamp is a time as the kernel has it.
type stamp struct{ Sec, Nsec int64 }

func stampOf(t unix.Timespec) stamp { return stamp{t.Sec, t.Nsec} }

// times leave the time of the last access alone.
func (t stamp) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: t.Sec, Nsec: t.Nsec}}
}

// inode is a file, whatever it is called.
type inode struct{ Dev, Ino uint64 }

// identity is how the kernel tells that a file is the same and was not touched. Nobody can set the ctime.
type identity struct {
	Inode inode
	Ctime stamp
}

func identityOf(st *unix.Stat_t) identity {
	return identity{inode{uint64(st.Dev), st.Ino}, stampOf(st.Ctim)}
}

// xattr is an extended attribute.
type xattr struct{ Name, Value string }

// permissions are the bits of a mode that are kept.
const permissions = 0o777

// look takes over what stat(2) says.
func (e *entry) look(st *unix.Stat_t) {
	e.Mode, e.UID, e.GID, e.Mtime = st.Mode&permissions, st.Uid, st.Gid, stampOf(st.Mtim)
	if e.Kind == kindFile {
		e.Size, e.Seen = st.Size, identityOf(st)
	}
}

// untouched says whether the kernel tells that the file that st is of is e, as it was read.
func (e *entry) untouched(st *unix.Stat_t) bool {
	return e != nil && e.Kind == kindFile && !e.Racy && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		e.Seen == identityOf(st) && e.Size == st.Size && e.Mtime == stampOf(st.Mtim) && e.Mode == st.Mode&permissions
}

// index finds entries by path.
func index(entries []*entry) map[string]*entry {
	found := make(map[string]*entry, len(entries))
	for _, e := range entries {
		found[e.Path] = e
	}
	return found
}

// with is e with f of all that may be no UTF-8.
func (e entry) with(f func(string) string) entry {
	e.Path, e.Target, e.Digest, e.Xattrs = f(e.Path), f(e.Target), f(e.Digest), slices.Clone(e.Xattrs)
	for i, x := range e.Xattrs {
		e.Xattrs[i] = xattr{f(x.Name), f(x.Value)}
	}
	return e
}

// writeRecord replaces a file in one step, and it is on the disk then.
func writeRecord(path string, entries []*entry) error {
	list := make([]entry, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.with(url.PathEscape))
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, text, 0o600, renameio.WithTempDir(filepath.Dir(path)))
}

func readRecord(path string) (entries []*entry, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list []entry
	err = json.NewDecoder(file).Decode(&list)
	for _, e := range list {
		plain := e.with(func(s string) string {
			s, bad := url.PathUnescape(s)
			err = cmp.Or(err, bad)
			return s
		})
		entries = append(entries, &plain)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return entries, nil
}
