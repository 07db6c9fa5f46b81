// Package snapshot keeps the content of folders, and restores it. It believes nothing about a folder that the agent
// can change meanwhile, and follows no link in one. It knows no repository: it is told what is ignored.
//
// A snapshot is a folder with the files in it, so that `ls` shows what it has. Beside each tree is a record of what
// stat(2) said of the original. A file that has not changed since the snapshot before, by that record, becomes a hard
// link to the file there. Another shares its blocks where the file system can (a reflink), or is copied, with its
// holes. So the files of a snapshot are read-only: an edit in one would change the others. A restore copies, and never links.
//
//	DIR/NAME/ID/snapshot.json   a Snapshot
//	DIR/NAME/ID/main            the files of the folder "main"; of "main/git" it is main.git
//	DIR/NAME/ID/main.stat       their record: see entry
//	DIR/NAME/ID/gone            since when the sandbox is gone, by its time; see Collect
//	DIR/.tmp/                   what is being made or removed
//
// Kept are files (permissions, times, names of one file within a folder), symbolic links and folders. Sockets, FIFOs,
// devices and what can't be read are left out, and named. Extended attributes, setuid and setgid are not kept.
//
// Every path of the workspace is opened beneath its folder, through no link (openat2(2)): what is renamed or replaced
// meanwhile leads to nowhere else.
package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// Folder is one folder that belongs to a snapshot.
type Folder struct {
	Name string // "main", "main/git"
	Path string // absolute, links resolved: one that has come to be on the way since is not followed
	// Ignored says of a path, relative to Path and with a slash at the end of a folder, whether it is
	// left out; nil: nothing is.
	Ignored func(path string) bool
}

// Snapshot is one that is kept.
type Snapshot struct {
	ID        string    `json:"id"` // unique within a sandbox's name: "20260115-103000", "-2" added where that is taken
	Sandbox   string    `json:"sandbox"`
	Of        time.Time `json:"of"`              // when that sandbox was made: another of the same name is another
	Label     string    `json:"label,omitempty"` // the user's, or "before reset", "before apply"
	Automatic bool      `json:"automatic,omitempty"`
	Ignored   bool      `json:"ignored,omitempty"` // what repositories ignore is in it
	Made      time.Time `json:"made"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes"` // of all files
	Added     int64     `json:"added"` // bytes that are no links to the snapshot before
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

// Create keeps folders as they are now. When it fails, there is no snapshot, and nothing of it is left.
func (s Store) Create(ctx context.Context, r Request) (Snapshot, error) {
	one := Snapshot{
		Sandbox: r.Sandbox, Of: r.Of, Label: r.Label, Automatic: r.Automatic, Ignored: r.Ignored, Made: s.now().UTC(),
	}
	dir, err := s.scratch(r.Sandbox)
	if err == nil {
		err = s.fill(ctx, r, &one, dir)
		err = errors.Join(err, hostile.RemoveAll(dir)) // which is gone if it became a snapshot
	}
	if err != nil {
		return Snapshot{}, err
	}
	return one, nil
}

// fill makes a snapshot in dir, and gives it a name.
func (s Store) fill(ctx context.Context, r Request, one *Snapshot, dir string) error {
	list, _ := s.List(r.Sandbox) // without the one before, this one is slower
	budget := &budget{maxCopied: r.MaxCopied}
	for _, f := range r.Folders {
		m := &maker{ctx: ctx, folder: f, now: s.now, budget: budget, to: treeOf(dir, f.Name)}
		if len(list) > 0 {
			before := s.path(r.Sandbox, list[len(list)-1].ID)
			entries, _ := readRecord(recordOf(before, f.Name))
			m.old, m.before = treeOf(before, f.Name), index(entries)
		}
		entries, err := m.run()
		if err == nil {
			err = writeRecord(recordOf(dir, f.Name), entries)
		}
		if err != nil {
			return fmt.Errorf("keeping %s: %w", f.Path, err)
		}
		one.add(f.Name, entries)
	}
	one.Added = budget.added
	if err := s.publish(one, dir); err != nil {
		return fmt.Errorf("keeping the snapshot: %w", err)
	}
	return nil
}

// add counts a folder.
func (one *Snapshot) add(name string, entries []*entry) {
	one.Folders = append(one.Folders, name)
	for _, e := range entries {
		switch {
		case e.Kind == kindFile:
			one.Files++
			one.Bytes += e.Size
		case e.Kind == kindSpecial, e.Kind == kindLeft && e.Target != "":
			if one.SkippedCount++; len(one.Skipped) < maxSkipped {
				one.Skipped = append(one.Skipped, e.Path+": "+e.Target)
			}
		}
	}
}

// publish gives the snapshot in dir an ID that is free, under which others see it.
func (s Store) publish(one *Snapshot, dir string) error {
	stem := one.Made.Format("20060102-150405")
	for n := 1; ; n++ {
		if one.ID = stem; n > 1 {
			one.ID += "-" + strconv.Itoa(n)
		}
		to := s.path(one.Sandbox, one.ID)
		text, err := json.Marshal(one)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, headerName), text, 0o600)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.Rename(dir, to)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

const headerName = "snapshot.json"

// List is every snapshot of a sandbox's name, oldest first; "" is of all names. What can't be read is left
// out, and the error says which.
func (s Store) List(sandbox string) ([]Snapshot, error) {
	names := []string{sandbox}
	if sandbox == "" {
		var err error
		if names, err = listDir(s.Dir); err != nil {
			return nil, err
		}
	}
	var found []Snapshot
	var errs []error
	for _, name := range names {
		ids, err := listDir(filepath.Join(s.Dir, filepath.Base(name)))
		errs = append(errs, err)
		for _, id := range ids {
			one, err := s.header(name, id)
			switch {
			case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			case err != nil:
				errs = append(errs, forage.WithHint(fmt.Errorf("snapshot %s of %s is damaged: %w", id, name, err),
					"`forage-ctl snapshot "+name+" delete "+id+"` removes it"))
			default:
				found = append(found, one)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Snapshot) int { return a.Made.Compare(b.Made) })
	return found, errors.Join(errs...)
}

func (s Store) header(sandbox, id string) (one Snapshot, err error) {
	text, err := os.ReadFile(filepath.Join(s.path(sandbox, id), headerName))
	if err == nil {
		err = json.Unmarshal(text, &one)
	}
	one.ID = id
	return one, err
}

// Find is one snapshot. ErrUsage: there is none of that name.
func (s Store) Find(sandbox, id string) (Snapshot, error) {
	if _, err := s.existing(sandbox, id); err != nil {
		return Snapshot{}, err
	}
	return s.header(sandbox, id)
}

// Delete removes one, from one moment to the next.
func (s Store) Delete(sandbox, id string) error {
	old, err := s.existing(sandbox, id)
	if err != nil {
		return err
	}
	dir, err := s.scratch(sandbox)
	if err != nil {
		return err
	}
	err = os.Rename(old, filepath.Join(dir, id))
	_ = os.Remove(filepath.Dir(old)) // if that was the last
	return errors.Join(err, hostile.RemoveAll(dir))
}

// existing is the folder of a snapshot, if there is one.
func (s Store) existing(sandbox, id string) (string, error) {
	dir := s.path(sandbox, id)
	_, err := os.Lstat(dir)
	if err == nil && id != "" && strings.Trim(id, "0123456789-") == "" {
		return dir, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return "", forage.WithHint(forage.Errorf(forage.ErrUsage, "%s has no snapshot %q", sandbox, id),
		"`forage-ctl snapshot "+sandbox+" list` shows them")
}

func (s Store) path(sandbox, id string) string {
	return filepath.Join(s.Dir, filepath.Base(sandbox), filepath.Base(id))
}

// scratch is a new folder for what is being made or removed. Collect removes that of a process that was killed.
func (s Store) scratch(sandbox string) (string, error) {
	return workspace.MakeScratch(filepath.Join(s.Dir, scratchName), sandbox)
}

const scratchName = ".tmp"

// listDir is the names in a folder that don't begin with a dot, sorted; none if it isn't there.
func listDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}
