// Package snapshot keeps and restores the exact content of folders: contents are addressed by their digest and
// kept once, by reflink where the file system has it. It follows no link, and believes nothing about a folder that the
// agent can change meanwhile. It knows no repository: what is ignored, and which folders belong together, it is told.
//
// What is kept: files (permissions, times to the nanosecond, extended attributes of users; holes stay holes, and the names
// of one file within a folder stay names of one file), symbolic links and folders. Sockets, FIFOs, devices and what can't be
// read are left out, and said; bits that change a program's identity (setuid, setgid) are dropped.
//
//	DIR/lock                 held shared while contents come in or go out, alone while they are collected
//	DIR/tmp/                 what is being written; left by a killed process, Collect takes it away
//	DIR/objects/ab/cdef...   contents; object-... is being written, too
//	DIR/sandboxes/NAME/ID    what a snapshot consists of: see manifest
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
)

// Folder is one folder that belongs to a snapshot.
type Folder struct {
	Name string // "main", "main.repository"
	Path string // absolute, links resolved: one that has come to be on the way since is not followed
	// Ignored says of a path, relative to Path and with a slash at the end of a folder, whether it is
	// left out; nil: nothing is.
	Ignored func(path string) bool
}

// Snapshot is one that is kept.
type Snapshot struct {
	ID        string    `json:"id"` // unique within a sandbox: "20260115-103000", "-2" added where that is taken
	Sandbox   string    `json:"sandbox"`
	Of        time.Time `json:"of"`              // when that sandbox was made: another of the same name is another
	Label     string    `json:"label,omitempty"` // the user's, or "before reset", "before apply"
	Automatic bool      `json:"automatic,omitempty"`
	Ignored   bool      `json:"ignored,omitempty"` // what repositories ignore is in it
	Made      time.Time `json:"made"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes"` // of all files
	Added     int64     `json:"added"` // bytes that no snapshot had before
	Folders   []string  `json:"folders"`
	// Skipped are paths that are not in it though nothing ignores them, each with why, at most maxSkipped;
	// SkippedCount is how many there are. They come from inside: escape them.
	Skipped      []string `json:"skipped,omitempty"`
	SkippedCount int      `json:"skippedCount,omitempty"`
}

// maxSkipped bounds Snapshot.Skipped.
const maxSkipped = 50

// Store keeps snapshots in Dir.
type Store struct {
	Dir string
	Now func() time.Time // nil: time.Now
}

func (s Store) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Request is what Create needs.
type Request struct {
	Sandbox   string
	Of        time.Time
	Label     string
	Automatic bool
	Ignored   bool // is only put on record: Folder.Ignored decides
	Folders   []Folder
	// MaxCopied bounds the bytes that are copied because the file system can't share them: ErrRefused where more would
	// have to be. 0 is no bound.
	MaxCopied int64
}

// Create keeps folders as they are now. The one before it makes it quick: a file that the kernel says
// was not touched since is not read again. When it fails, there is no snapshot.
func (s Store) Create(ctx context.Context, r Request) (Snapshot, error) {
	unlock, err := s.share(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer unlock()
	made, err := s.create(ctx, r, nil)
	return made.Snapshot, err
}

// create is Create for who holds the lock. What needed has is kept even if it is ignored.
func (s Store) create(ctx context.Context, r Request, needed *manifest) (*manifest, error) {
	failed := &manifest{}
	before := s.newest(r.Sandbox)
	m := &manifest{Snapshot: Snapshot{
		Sandbox: r.Sandbox, Of: r.Of, Label: r.Label, Automatic: r.Automatic, Ignored: r.Ignored, Made: s.now().UTC(),
	}}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	in := &intake{objects: objects{dir: s.Dir}, ctx: ctx, giveUp: giveUp, now: s.now, maxCopied: r.MaxCopied}
	for _, f := range r.Folders {
		c, err := in.take(f, before.contents(f.Name), needed.contents(f.Name))
		if err != nil {
			return failed, explain(fmt.Errorf("keeping %s: %w", f.Path, err))
		}
		m.add(c)
	}
	m.Added = in.added.Load()
	if err := s.save(m); err != nil {
		return failed, explain(fmt.Errorf("keeping the snapshot: %w", err))
	}
	return m, nil
}

// List is every snapshot of a sandbox, oldest first; "" is of all sandboxes. What can't be read is left
// out, and the error says which.
func (s Store) List(sandbox string) ([]Snapshot, error) {
	names := []string{sandbox}
	if sandbox == "" {
		var err error
		if names, err = s.sandboxes(); err != nil {
			return nil, err
		}
	}
	var list []Snapshot
	var errs []error
	for _, name := range names {
		ids, err := s.ids(name)
		errs = append(errs, err)
		for _, id := range ids {
			one, err := readHeader(s.path(name, id))
			if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("snapshot %s of %s: %w", id, name, err))
				continue
			}
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b Snapshot) int { return a.Made.Compare(b.Made) })
	return list, errors.Join(errs...)
}

// Find is one snapshot. ErrUsage: there is none of that name.
func (s Store) Find(sandbox, id string) (Snapshot, error) {
	if err := s.check(sandbox, id); err != nil {
		return Snapshot{}, err
	}
	return readHeader(s.path(sandbox, id))
}

// Delete forgets one. Contents that no snapshot needs any more go with Collect.
func (s Store) Delete(sandbox, id string) error {
	if err := s.check(sandbox, id); err != nil {
		return err
	}
	return explain(absent(os.Remove(s.path(sandbox, id))))
}

// check says whether there is such a snapshot.
func (s Store) check(sandbox, id string) error {
	_, err := os.Lstat(s.path(sandbox, id))
	if err == nil && validID(id) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrUsage, "%s has no snapshot %q", sandbox, id),
		"`forage-ctl snapshot "+sandbox+" list` shows them")
}

// validID says whether id could be one: it is the name of a file.
func validID(id string) bool {
	return id != "" && id[0] != '.' && id[0] != '-' && strings.Trim(id, "0123456789-") == ""
}

func (s Store) path(sandbox, id string) string {
	return filepath.Join(s.Dir, "sandboxes", filepath.Base(sandbox), filepath.Base(id))
}

// sandboxes are the names that have snapshots.
func (s Store) sandboxes() ([]string, error) {
	names, err := list(filepath.Join(s.Dir, "sandboxes"))
	return slices.DeleteFunc(names, func(n string) bool { return forage.CheckName(n) != nil }), err
}

// ids are the snapshots of a sandbox, in the order in which they were made but for those of one second.
func (s Store) ids(sandbox string) ([]string, error) {
	ids, err := list(filepath.Join(s.Dir, "sandboxes", filepath.Base(sandbox)))
	return slices.DeleteFunc(ids, func(id string) bool { return !validID(id) }), err
}

// list is the names in a folder, sorted; none if it isn't there.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// explain adds what the user can do to the errors of a file system that takes no more.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return forage.WithHint(err, "free some space, for example by deleting snapshots and `forage-ctl gc`, and do it again")
	case errors.Is(err, unix.EROFS):
		return forage.WithHint(err, forage.HintWritableState)
	default:
		return err
	}
}
