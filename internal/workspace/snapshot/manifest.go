package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// manifest is a snapshot with all that it consists of. Its file is a line of JSON (Snapshot), the
// folders (see encode.go), and the SHA-256 of all that.
type manifest struct {
	Snapshot
	folders []*contents
}

// contents is what is in one folder, parents before what is in them.
type contents struct {
	name    string
	entries []*entry
	index   sync.Once
	byPath  map[string]*entry // made when it is asked for
}

// kind is what an entry is.
type kind byte

const (
	kindFile   kind = 'f'
	kindFolder kind = 'd'
	kindLink   kind = 'l'
	kindLeft   kind = '-' // is there, and is no part of the snapshot: restoring leaves alone what is at this path
)

// entry is one file, folder or link.
type entry struct {
	path     string // relative to the folder, with slashes; "" is the folder itself
	kind     kind
	mode     uint32 // permission bits alone
	uid, gid uint32
	mtime    stamp
	size     int64
	digest   digest
	target   string // of a link; of a file: the first name of it, if this is another; of kindLeft: why, "" where it is ignored
	xattrs   []xattr
	seen     identity
	racy     bool // so new when it was read that a later change may have left no trace in seen
}

// stamp is a time as the kernel has it.
type stamp struct{ sec, nsec int64 }

// identity is how the kernel tells that a file is the same and was not touched.
type identity struct {
	dev, ino uint64
	ctime    stamp
}

// xattr is an extended attribute.
type xattr struct{ name, value string }

// find is the entry at path, if there is one.
func (c *contents) find(path string) *entry {
	if c == nil {
		return nil
	}
	c.index.Do(func() {
		c.byPath = make(map[string]*entry, len(c.entries))
		for _, e := range c.entries {
			c.byPath[e.path] = e
		}
	})
	return c.byPath[path]
}

// contents is the folder of that name; nil: it has none.
func (m *manifest) contents(name string) *contents {
	if m != nil {
		for _, c := range m.folders {
			if c.name == name {
				return c
			}
		}
	}
	return nil
}

// add takes a folder in, and counts.
func (m *manifest) add(c *contents) {
	m.folders = append(m.folders, c)
	m.Folders = append(m.Folders, c.name)
	for _, e := range c.entries {
		switch {
		case e.kind == kindFile:
			m.Files++
			m.Bytes += e.size
		case e.kind == kindLeft && e.target != "":
			if m.SkippedCount++; len(m.Skipped) < maxSkipped {
				m.Skipped = append(m.Skipped, e.path+": "+e.target)
			}
		}
	}
}

// newest is the last snapshot of a sandbox that can be read whole, in the place of a cache; nil: there is none.
func (s Store) newest(sandbox string) *manifest {
	snapshots, _ := s.List(sandbox) // one that can't be read makes this one slower, no more
	for i := len(snapshots) - 1; i >= 0; i-- {
		if m, err := readManifest(s.path(sandbox, snapshots[i].ID)); err == nil {
			return m
		}
	}
	return nil
}

// save gives the snapshot an ID and keeps it, whole or not at all.
func (s Store) save(m *manifest) error {
	dir := filepath.Dir(s.path(m.Sandbox, "any"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	stem := m.Made.Format("20060102-150405")
	for n := 1; ; n++ {
		m.ID = stem
		if n > 1 {
			m.ID += "-" + strconv.Itoa(n)
		}
		if _, err := os.Lstat(s.path(m.Sandbox, m.ID)); err == nil {
			continue
		}
		err := s.write(m)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// write is save under the ID that m has: fs.ErrExist when somebody was quicker.
func (s Store) write(m *manifest) (err error) {
	file, err := os.CreateTemp(filepath.Join(s.Dir, "tmp"), "manifest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	sum := sha256.New()
	buffered := bufio.NewWriterSize(file, 1<<20)
	w := io.MultiWriter(buffered, sum)
	header, err := json.Marshal(m.Snapshot)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(header, '\n')); err != nil {
		return err
	}
	for _, c := range m.folders {
		if err := c.encode(w); err != nil {
			return err
		}
	}
	_, err = buffered.Write(sum.Sum(nil))
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return os.Link(file.Name(), s.path(m.Sandbox, m.ID))
}

// maxHeader bounds the first line of a manifest, in bytes.
const maxHeader = 1 << 20

func readHeader(path string) (Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return Snapshot{}, err
	}
	defer file.Close()
	line, err := bufio.NewReader(io.LimitReader(file, maxHeader)).ReadBytes('\n')
	if err != nil {
		return Snapshot{}, damaged(err)
	}
	return parseHeader(line, filepath.Base(path))
}

func parseHeader(line []byte, id string) (Snapshot, error) {
	var s Snapshot
	if err := json.Unmarshal(line, &s); err != nil {
		return s, damaged(err)
	}
	s.ID = id
	return s, nil
}

// readSummed reads a file that has the SHA-256 of all before it at its end, and returns what is before.
func readSummed(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) < sha256.Size {
		return nil, damaged(errShort)
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if want := sha256.Sum256(body); !bytes.Equal(want[:], sum) {
		return nil, damaged(errors.New("its digest is another"))
	}
	return body, nil
}

func readManifest(path string) (*manifest, error) {
	body, err := readSummed(path)
	if err != nil {
		return nil, err
	}
	line, rest, _ := bytes.Cut(body, []byte("\n"))
	m := &manifest{}
	if m.Snapshot, err = parseHeader(line, filepath.Base(path)); err != nil {
		return nil, err
	}
	for len(rest) > 0 {
		var c *contents
		if c, rest, err = decode(rest); err != nil {
			return nil, damaged(err)
		}
		m.folders = append(m.folders, c)
	}
	return m, nil
}

func damaged(err error) error { return fmt.Errorf("it is damaged: %w", err) }
