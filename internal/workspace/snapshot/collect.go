package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keptFor is how long snapshots that nobody asked for stay, and those of a sandbox that is gone.
const keptFor = 30 * 24 * time.Hour

// goneName is an empty file among a sandbox's snapshots: since when the sandbox is not there.
const goneName = ".gone"

// Collection is what Collect goes by.
type Collection struct {
	Exists func(sandbox string, of time.Time) bool
	Now    time.Time
	DryRun bool
}

// Collect removes automatic snapshots that are older than keptFor, those of sandboxes that have been gone for
// longer, contents that no snapshot needs, and what killed processes left. What it removed, or would
// remove, is said in words. While anybody makes or restores a snapshot it leaves everything.
func (s Store) Collect(c Collection) ([]string, error) {
	if _, err := os.Lstat(s.Dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	unlock, ok, err := s.alone()
	if err != nil || !ok {
		return nil, err
	}
	defer unlock()
	said, needed, err := s.expire(c)
	if err != nil {
		return said, err // with a snapshot that can't be read, nobody knows what is needed
	}
	removed, bytes, err := s.sweep(needed, c.DryRun)
	if removed > 0 {
		said = append(said, fmt.Sprintf("removed %d contents of snapshots that nothing needs (%d bytes)", removed, bytes))
	}
	return said, errors.Join(err, s.temporaries(c.DryRun))
}

// expire removes the snapshots whose time is over; needed are the contents of the others.
func (s Store) expire(c Collection) (said []string, needed map[digest]bool, err error) {
	names, err := s.sandboxes()
	errs := []error{err}
	needed = make(map[digest]bool)
	for _, name := range names {
		ids, err := s.ids(name)
		errs = append(errs, err)
		left := len(ids)
		for _, id := range ids {
			m, err := readManifest(s.path(name, id))
			if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
				left--
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("snapshot %s of %s: %w", id, name, err))
				continue
			}
			if !s.over(m.Snapshot, c) {
				for _, f := range m.folders {
					for _, e := range f.entries {
						if e.kind == kindFile {
							needed[e.digest] = true
						}
					}
				}
				continue
			}
			left--
			said = append(said, fmt.Sprintf("removed the snapshot %s of %s", id, name))
			if !c.DryRun {
				errs = append(errs, absent(os.Remove(s.path(name, id))))
			}
		}
		if left == 0 && !c.DryRun {
			errs = append(errs, os.RemoveAll(filepath.Dir(s.path(name, "any"))))
		}
	}
	return said, needed, errors.Join(errs...)
}

// over says whether a snapshot's time is over. The first time that its sandbox is not there is put on
// record: from then on it is kept for keptFor.
func (s Store) over(one Snapshot, c Collection) bool {
	if c.Exists(one.Sandbox, one.Of) {
		return one.Automatic && c.Now.Sub(one.Made) > keptFor
	}
	marker := filepath.Join(filepath.Dir(s.path(one.Sandbox, "any")), goneName+one.Of.UTC().Format("-20060102-150405.000000000"))
	info, err := os.Lstat(marker)
	if err == nil {
		return c.Now.Sub(info.ModTime()) > keptFor && c.Now.Sub(one.Made) > keptFor
	}
	if !c.DryRun {
		if os.WriteFile(marker, nil, 0o600) == nil {
			os.Chtimes(marker, c.Now, c.Now)
		}
	}
	return false
}

// sweep removes the contents that are not needed, and what is unfinished among them.
func (s Store) sweep(needed map[digest]bool, dryRun bool) (count int, bytes int64, err error) {
	keep := make(map[string]bool, len(needed))
	for d := range needed {
		keep[d.name()] = true
	}
	top := filepath.Join(s.Dir, "objects")
	folders, err := list(top)
	errs := []error{err}
	for _, folder := range folders {
		names, err := list(filepath.Join(top, folder))
		errs = append(errs, err)
		for _, name := range names {
			path := filepath.Join(top, folder, name)
			info, err := os.Lstat(path)
			if err != nil || keep[filepath.Join(folder, name)] {
				continue
			}
			if !strings.HasPrefix(name, unfinished) {
				count, bytes = count+1, bytes+info.Size()
			}
			if !dryRun {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	return count, bytes, errors.Join(errs...)
}

// temporaries removes what was being written when its process was killed: nobody writes now.
func (s Store) temporaries(dryRun bool) error {
	names, err := list(filepath.Join(s.Dir, "tmp"))
	errs := []error{err}
	for _, name := range names {
		if !dryRun {
			errs = append(errs, os.Remove(filepath.Join(s.Dir, "tmp", name)))
		}
	}
	return errors.Join(errs...)
}
