package snapshot_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/workspace/snapshot"
)

// describe is all that a restore has to bring back, by path. What its mode closes is opened to be looked at, and closed again.
func describe(t interface {
	Helper()
	Fatal(...any)
}, root string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	names := make(map[uint64]string) // first ones of files that have several
	var look func(path string) error
	look = func(path string) error {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		kind, mode := st.Mode&unix.S_IFMT, os.FileMode(st.Mode&0o777)
		if open := mode | 0o500; kind != unix.S_IFLNK && open != mode && os.Getuid() != 0 {
			if err := os.Chmod(path, open); err != nil {
				return err
			}
			defer os.Chmod(path, mode)
		}
		rel, _ := filepath.Rel(root, path)
		text := fmt.Sprintf("%o %d.%09d %d:%d", st.Mode, st.Mtim.Sec, st.Mtim.Nsec, st.Uid, st.Gid)
		switch kind {
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + target
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
			if first := names[st.Ino]; first != "" {
				text += " same as " + first
			} else {
				names[st.Ino] = rel
				text += fmt.Sprintf(" %d names", st.Nlink)
			}
		case unix.S_IFDIR:
			entries, err := os.ReadDir(path)
			if err != nil {
				return err
			}
			for _, entry := range entries {
				if err := look(filepath.Join(path, entry.Name())); err != nil {
					return err
				}
			}
		}
		found[rel] = text
		return nil
	}
	if err := look(root); err != nil {
		t.Fatal(err)
	}
	return found
}

// files makes files of a map; a name that ends in a slash is a folder, a content "-> X" a link.
func files(t testing.TB, root string, contents map[string]string) {
	t.Helper()
	for name, content := range contents {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		target, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case isLink:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// place is a store and a folder of which it keeps snapshots.
type place struct {
	store  snapshot.Store
	folder snapshot.Folder
}

func newPlace(t testing.TB) place {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "tree")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return place{snapshot.Store{Dir: filepath.Join(dir, "store")}, snapshot.Folder{Name: "main", Path: root}}
}

var born = time.Date(2026, 1, 15, 10, 30, 0, 0, time.UTC)

func (p place) request() snapshot.Request {
	return snapshot.Request{Sandbox: "work", Of: born, Folders: []snapshot.Folder{p.folder}}
}

func (p place) create(t testing.TB) snapshot.Snapshot {
	t.Helper()
	made, err := p.store.Create(t.Context(), p.request())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (p place) restore(t testing.TB, id string) snapshot.Snapshot {
	t.Helper()
	before, err := p.store.Restore(t.Context(), "work", id, p.request())
	if err != nil {
		t.Fatal(err)
	}
	return before
}

func (p place) path(name string) string { return filepath.Join(p.folder.Path, name) }

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
