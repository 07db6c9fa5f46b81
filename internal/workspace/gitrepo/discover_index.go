package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// maxIndex bounds an index file, in bytes: millions of files.
const maxIndex = 1 << 30

// errOddIndex says that an index has to be read by git itself.
var errOddIndex = errors.New("not an index that is read here")

// Gitlinks are the paths at which an index file of the host's has submodules, populated or not.
func (r *Repository) Gitlinks(ctx context.Context, index, scratch string) ([]string, error) {
	text, err := readRegular(index, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	links, err := parseGitlinks(text, len(emptyID(r.ObjectFormat))/2)
	if !errors.Is(err, errOddIndex) {
		return links, err
	}
	return r.askGitlinks(ctx, index, scratch)
}

func (r *Repository) askGitlinks(ctx context.Context, index, scratch string) (links []string, err error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := copyIndex(s.Dir, index); err != nil {
		return nil, err
	}
	out, err := s.Git(ctx, Call{Args: []string{"ls-files", "--stage", "-z"}})
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if head, path, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(head, "160000 ") {
			links = append(links, path)
		}
	}
	return links, nil
}

// parseGitlinks reads an index: gitformat-index(5).
func parseGitlinks(text []byte, hash int) ([]string, error) {
	if len(text) < 12+hash || string(text[:4]) != "DIRC" {
		return nil, errOddIndex
	}
	version, count := binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:])
	if version < 2 || version > 4 {
		return nil, errOddIndex
	}
	var links []string
	rest, name := text[12:len(text)-hash], []byte(nil)
	for range count {
		const stat = 40
		fixed := stat + hash + 2
		if len(rest) < fixed {
			return nil, errOddIndex
		}
		if rest[stat+hash]&0x40 != 0 && version >= 3 {
			fixed += 2
		}
		mode := binary.BigEndian.Uint32(rest[24:])
		size := 0
		if name, size = entryName(rest, fixed, version, name); size == 0 {
			return nil, errOddIndex
		}
		if mode == 0o160000 {
			links = append(links, string(name))
		}
		rest = rest[size:]
	}
	if bytes.HasPrefix(rest, []byte("link")) { // of a split index, which has the other entries elsewhere
		return nil, errOddIndex
	}
	return links, nil
}

// entryName reads the name after the fixed part of an entry, and returns the size of all of it; 0 when it is broken.
func entryName(entry []byte, fixed int, version uint32, last []byte) ([]byte, int) {
	if version < 4 {
		end := bytes.IndexByte(entry[min(fixed, len(entry)):], 0)
		size := (fixed + end + 8) &^ 7
		if end < 0 || size > len(entry) {
			return nil, 0
		}
		return entry[fixed : fixed+end], size
	}
	strip, at := uint64(0), fixed
	for {
		if at >= len(entry) || strip > 1<<32 {
			return nil, 0
		}
		c := entry[at]
		at++
		strip = strip<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			break
		}
		strip++
	}
	end := bytes.IndexByte(entry[at:], 0)
	if end < 0 || strip > uint64(len(last)) {
		return nil, 0
	}
	name := append(bytes.Clone(last[:uint64(len(last))-strip]), entry[at:at+end]...)
	return name, at + end + 1
}

// emptyID is the id that stands for nothing.
func emptyID(format string) string {
	if format == "sha256" {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// WorktreeIndex is the index file of the worktree of that name.
func (r *Repository) WorktreeIndex(name string) string { return filepath.Join(r.admin(name), "index") }
