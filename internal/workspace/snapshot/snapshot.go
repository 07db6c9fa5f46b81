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
// Kept are files (permissions, times, extended attributes of users, names of one file within a folder), symbolic links
// and folders. Sockets, FIFOs, devices and what can't be read are left out, and named. setuid and setgid are dropped.
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

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
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
	made, err := s.create(ctx, r, "")
	return made, explain(err)
}

// create is Create. What the snapshot in the folder needed has is kept even if it is ignored; "" is none.
func (s Store) create(ctx context.Context, r Request, needed string) (_ Snapshot, err error) {
	if err := s.check(); err != nil {
		return Snapshot{}, err
	}
	one := Snapshot{
		Sandbox: r.Sandbox, Of: r.Of, Label: r.Label, Automatic: r.Automatic, Ignored: r.Ignored, Made: s.now().UTC(),
	}
	before := ""
	if list, _ := s.List(r.Sandbox); len(list) > 0 { // without it, this one is slower
		before = s.path(r.Sandbox, list[len(list)-1].ID)
	}
	dir, err := s.scratch(r.Sandbox)
	if err != nil {
		return Snapshot{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, gitrepo.RemoveTree(dir))
		}
	}()
	budget := &budget{maxCopied: r.MaxCopied}
	for _, f := range r.Folders {
		entries, err := s.take(ctx, f, dir, before, needed, budget)
		if err != nil {
			return Snapshot{}, fmt.Errorf("keeping %s: %w", f.Path, err)
		}
		one.add(f.Name, entries)
	}
	one.Added = budget.added
	if err := s.publish(&one, dir); err != nil {
		return Snapshot{}, fmt.Errorf("keeping the snapshot: %w", err)
	}
	return one, nil
}

// take keeps the folder f in the snapshot that is being made in dir.
func (s Store) take(ctx context.Context, f Folder, dir, before, needed string, b *budget) ([]*entry, error) {
	w := &walker{ctx: ctx, folder: f, now: s.now, budget: b, first: make(map[inode]*entry)}
	d := folders{to: -1, old: -1}
	defer func() { d.close() }()
	if before != "" {
		if entries, err := readRecord(recordOf(before, f.Name)); err == nil {
			w.before = index(entries)
			d.old, _ = openTree(treeOf(before, f.Name))
		}
	}
	if needed != "" {
		entries, err := readRecord(recordOf(needed, f.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		w.needed = index(entries)
	}
	from, err := workspace.OpenFolder(f.Path)
	if err != nil {
		return nil, err
	}
	d.from = from
	tree := treeOf(dir, f.Name)
	if err := os.Mkdir(tree, 0o700); err != nil {
		return nil, err
	}
	if w.tree, err = os.OpenRoot(tree); err != nil {
		return nil, err
	}
	defer w.tree.Close()
	if d.to, err = openTree(tree); err != nil {
		return nil, err
	}
	if err := w.visit(d, "", false); err != nil {
		return nil, err
	}
	return w.entries, writeRecord(recordOf(dir, f.Name), w.entries)
}

// add counts a folder.
func (one *Snapshot) add(name string, entries []*entry) {
	one.Folders = append(one.Folders, name)
	for _, e := range entries {
		switch {
		case e.Kind == kindFile:
			one.Files++
			one.Bytes += e.Size
		case e.Kind == kindLeft && e.Target != "":
			if one.SkippedCount++; len(one.Skipped) < maxSkipped {
				one.Skipped = append(one.Skipped, e.Path+": "+e.Target)
			}
		}
	}
}

// publish gives the snapshot in dir an ID, under which others see it.
func (s Store) publish(one *Snapshot, dir string) error {
	stem := one.Made.Format("20060102-150405")
	for n := 1; ; n++ {
		if one.ID = stem; n > 1 {
			one.ID += "-" + strconv.Itoa(n)
		}
		to := s.path(one.Sandbox, one.ID)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
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
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) { // others make one, or remove the last
			return err
		}
	}
}

const headerName = "snapshot.json"

// List is every snapshot of a sandbox's name, oldest first; "" is of all names. What can't be read is left
// out, and the error says which.
func (s Store) List(sandbox string) ([]Snapshot, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	names := []string{sandbox}
	if sandbox == "" {
		all, err := listDir(s.Dir)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(all, func(n string) bool { return forage.CheckName(n) != nil })
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
	if err := s.exists(sandbox, id); err != nil {
		return Snapshot{}, err
	}
	return s.header(sandbox, id)
}

// Delete removes one, from one moment to the next.
func (s Store) Delete(sandbox, id string) error {
	if err := s.exists(sandbox, id); err != nil {
		return err
	}
	dir, err := s.scratch(sandbox)
	if err != nil {
		return explain(err)
	}
	err = os.Rename(s.path(sandbox, id), filepath.Join(dir, id))
	if errors.Is(err, fs.ErrNotExist) { // by somebody else
		err = nil
	}
	os.Remove(filepath.Dir(s.path(sandbox, id))) // if that was the last
	return errors.Join(err, gitrepo.RemoveTree(dir))
}

// exists is an error unless there is such a snapshot.
func (s Store) exists(sandbox, id string) error {
	if err := s.check(); err != nil {
		return err
	}
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

// check refuses what an earlier Forage has kept: contents by their digests, and a file "lock".
func (s Store) check() error {
	if info, err := os.Lstat(filepath.Join(s.Dir, "lock")); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the snapshots in %s were made by an earlier Forage, and can't be read any more", s.Dir),
		"remove them: rm -rf "+s.Dir)
}

// validID says whether id could be one: it is the name of a folder.
func validID(id string) bool {
	return id != "" && id[0] != '.' && id[0] != '-' && strings.Trim(id, "0123456789-") == ""
}

func (s Store) path(sandbox, id string) string {
	return filepath.Join(s.Dir, filepath.Base(sandbox), filepath.Base(id))
}

// scratch is a new folder for what is being made or removed. Collect removes that of a process that was killed.
func (s Store) scratch(sandbox string) (string, error) {
	return workspace.MakeScratch(filepath.Join(s.Dir, scratchName), sandbox)
}

const scratchName = ".tmp"

func treeOf(dir, folder string) string {
	return filepath.Join(dir, strings.ReplaceAll(folder, "/", "."))
}
func recordOf(dir, folder string) string { return treeOf(dir, folder) + ".stat" }

// openTree opens a folder of our own.
func openTree(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// listDir is the names in a folder that don't begin with a dot, sorted; none if it isn't there.
func listDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// explain adds what the user can do to the errors of a file system that takes no more.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return forage.WithHint(err, "free some space, for example by deleting snapshots, and do it again")
	case errors.Is(err, unix.EROFS):
		return forage.WithHint(err, forage.HintWritableState)
	default:
		return err
	}
}
