package child

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// A socket or FIFO of the host that is inside a mounted tree leads out of the
// sandbox, even through a read-only mount: connect(2) and writing to a FIFO change no file system.
// The scan finds those that are there when the sandbox starts. What a host program
// makes later is not found; what the agent makes is Landlock's business.

// maxSpecial is how many of them are masked; a tree with more is refused.
const maxSpecial = 512

// specialFile is something in a tree that is masked.
type specialFile struct {
	path   string // relative to the tree
	folder bool   // a folder that could not be looked into
}

// treeScan is a scan that runs.
type treeScan struct {
	group   errgroup.Group
	folders atomic.Int64 // looked at so far

	mu    sync.Mutex
	found []specialFile
}

// A large tree is looked through on several threads; for a small one they
// would only cost.
const (
	scanHelpers = 3
	scanLarge   = 200 // folders
	scanBuffer  = 32 << 10
)

// What lies deeper than this is covered, unseen: such trees are made to stop a search.
const (
	scanDepth  = 200
	scanLength = 3500 // bytes of a path; PATH_MAX is 4096
)

// startScan begins to look through the tree at root, a detached mount.
func startScan(root int) *treeScan {
	s := new(treeScan)
	s.group.SetLimit(1 + scanHelpers)
	s.group.Go(func() error {
		fd, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("looking through it: %w", err)
		}
		return s.folder(fd, "", make([]byte, scanBuffer))
	})
	return s
}

func (s *treeScan) wait() ([]specialFile, error) {
	err := s.group.Wait()
	return s.found, err
}

// folder looks through the folder that fd is open on and closes it.
func (s *treeScan) folder(fd int, at string, buf []byte) error {
	defer unix.Close(fd)
	s.folders.Add(1)
	names, err := s.list(fd, at, buf)
	if err != nil {
		return err
	}
	for _, name := range names {
		rel := path.Join(at, name)
		if len(rel) > scanLength || strings.Count(rel, "/") >= scanDepth {
			if err := s.add(specialFile{rel, true}); err != nil {
				return err
			}
			continue
		}
		inner, err := s.open(fd, name, rel)
		if err == nil && inner >= 0 {
			err = s.descend(inner, rel, buf)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// descend looks through a folder, on a thread of its own if one is free.
func (s *treeScan) descend(fd int, at string, buf []byte) error {
	if s.folders.Load() >= scanLarge && s.group.TryGo(func() error { return s.folder(fd, at, make([]byte, scanBuffer)) }) {
		return nil
	}
	return s.folder(fd, at, buf)
}

// open opens one folder; -1 for one that is not to be looked through. What the kernel doesn't let
// us read is masked: its owner may let others go through it.
func (s *treeScan) open(dir int, name, rel string) (int, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOATIME,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.EPERM) { // O_NOATIME is for the owner
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if errors.Is(err, unix.EXDEV) {
		fd, err = openMounted(dir, name)
	}
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.EACCES):
		return -1, s.add(specialFile{rel, true})
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return -1, nil // it has just changed
	default:
		return -1, fmt.Errorf("looking through %q: %w", rel, err)
	}
}

// openMounted opens the root of another file system within the tree; -1 for
// one that would only be mounted by looking (autofs).
func openMounted(dir int, name string) (int, error) {
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(at, &fs); err != nil {
		return -1, err
	}
	if fs.Type == unix.AUTOFS_SUPER_MAGIC {
		return -1, nil
	}
	return unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func (s *treeScan) add(f specialFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) == maxSpecial {
		return fmt.Errorf("it holds more than %d sockets and FIFOs", maxSpecial)
	}
	s.found = append(s.found, f)
	return nil
}

// list reads a folder: it adds what is special and returns the names of the folders.
func (s *treeScan) list(fd int, at string, buf []byte) (folders []string, err error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, fmt.Errorf("reading the folder %q: %w", at, err)
		}
		if n == 0 {
			return folders, nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			name, kind, size := parseDirent(rest)
			rest = rest[size:]
			if kind == unix.DT_UNKNOWN {
				kind = kindOf(fd, name)
			}
			switch kind {
			case unix.DT_DIR:
				if string(name) != "." && string(name) != ".." {
					folders = append(folders, string(name))
				}
			case unix.DT_SOCK, unix.DT_FIFO:
				if err := s.add(specialFile{path: path.Join(at, string(name))}); err != nil {
					return nil, err
				}
			}
		}
	}
}

// parseDirent takes one entry apart: struct linux_dirent64, getdents(2).
func parseDirent(b []byte) (name []byte, kind byte, size int) {
	size = int(binary.NativeEndian.Uint16(b[16:]))
	name = b[19:size]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	return name, b[18], size
}

// kindOf asks for the type of a file on file systems that don't list it.
func kindOf(dir int, name []byte) byte {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, string(name), &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode & unix.S_IFMT >> 12) // IFTODT: dirent.h
}
