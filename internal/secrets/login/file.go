package login

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
)

// maxFile is how large a login file may be, in bytes.
const maxFile = 1 << 20

// errNotJSON says no more, since a JSON error quotes what it read.
var errNotJSON = errors.New("is not the JSON that it should be")

// file is a login file, which others write to as well. It is read each time.
type file struct {
	path  string
	parse func([]byte) (tokens, error)

	mu sync.Mutex
	// unsaved is what could not be written, instead of the tokens that lost is.
	unsaved, lost tokens
}

// read gives the tokens that are in the file now.
func (f *file) read() (tokens, error) {
	held, _, err := f.load()
	return held, err
}

// load gives the tokens that are in the file now, and all of the file.
func (f *file) load() (held tokens, raw []byte, err error) {
	if raw, err = Read(f.path); err == nil {
		held, err = f.parse(raw)
	}
	if err != nil {
		return tokens{}, nil, fmt.Errorf("the login in %s: %w", f.path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost.access != "" && held.same(f.lost) {
		return f.unsaved, raw, nil
	}
	return held, raw, nil
}

// Read reads a login file, whatever is in it.
func Read(path string) ([]byte, error) {
	raw, _, err := hostile.ReadFile(path, 0, maxFile)
	return raw, err
}

// keep remembers tokens that could not be written, so that at least this process goes on.
func (f *file) keep(unsaved, instead tokens) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsaved, f.lost = unsaved, instead
}

// replacement is a file that is ready to take the login file's place: whatever
// could keep it from that shows before a token is used up.
type replacement struct {
	path string // of the login file, links resolved
	file *os.File
}

// replace makes a replacement; the caller holds the lock.
func (f *file) replace() (*replacement, error) {
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return nil, hostile.Bare(err)
	}
	var old unix.Stat_t
	if err := unix.Stat(path, &old); err != nil {
		return nil, err
	}
	next := path + ".forage"
	// Left by a process that was killed: we have the lock.
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, hostile.Bare(err)
	}
	fd, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, hostile.Bare(err)
	}
	r := &replacement{path: path, file: fd}
	if old.Uid != uint32(os.Geteuid()) || old.Gid != uint32(os.Getegid()) {
		err = fd.Chown(int(old.Uid), int(old.Gid))
	}
	if err == nil {
		_, err = fd.Write(make([]byte, min(old.Size, maxFile)+1<<13)) // the room that it will need
	}
	if err = errors.Join(err, fd.Chmod(0o600), fd.Sync()); err != nil { // whatever the umask is
		r.drop()
		return nil, hostile.Bare(err)
	}
	return r, nil
}

// commit puts content in place of the login file: whole, and to stay.
func (r *replacement) commit(content []byte) error {
	_, err := r.file.WriteAt(content, 0)
	if err = errors.Join(err, r.file.Truncate(int64(len(content))), r.file.Sync()); err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		return hostile.Bare(err)
	}
	dir, err := os.Open(filepath.Dir(r.path))
	if err != nil {
		return hostile.Bare(err)
	}
	defer dir.Close()
	return dir.Sync()
}

// drop removes what has not been put in place.
func (r *replacement) drop() {
	_ = r.file.Close()           // what was written is either synced or unwanted
	_ = os.Remove(r.file.Name()) // after a commit there is nothing
}
