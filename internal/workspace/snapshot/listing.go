package snapshot

import (
	"context"
	"fmt"
	"time"

	"forage/internal/workspace"
)

// Difference is a file, link or folder that is not as a listing has it. Path comes from inside: escape it.
type Difference struct {
	Path   string
	Status string // "added", "modified" or "deleted"
}

// WriteListing writes what a folder of a snapshot consists of, with digests in the place of contents, to a file that outlives it.
func (s Store) WriteListing(ctx context.Context, sandbox, id, folder, path string) error {
	if err := s.exists(sandbox, id); err != nil {
		return err
	}
	dir := s.path(sandbox, id)
	entries, err := readRecord(recordOf(dir, folder))
	if err != nil {
		return fmt.Errorf("reading snapshot %s: %w", id, err)
	}
	kept, err := digests(ctx, Folder{Path: treeOf(dir, folder)}, nil)
	if err != nil {
		return fmt.Errorf("reading snapshot %s: %w", id, err)
	}
	content := index(kept)
	for _, e := range entries {
		if have := content[e.Path]; e.Kind == kindFile && have != nil {
			e.Digest = have.Digest
		}
	}
	return writeRecord(path, entries)
}

// digests is what is in a folder. A file that was not touched since last is not read again.
func digests(ctx context.Context, f Folder, last []*entry) ([]*entry, error) {
	w := &walker{ctx: ctx, folder: f, now: time.Now, budget: &budget{}, first: make(map[inode]*entry), before: index(last)}
	from, err := workspace.OpenFolder(f.Path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	err = w.visit(folders{from: from, to: -1, old: -1}, "", false)
	return w.entries, err
}

// Compare says in which paths f differs from a listing: in content, kind, permission to execute or target. cache is a
// file of ours that makes the next call quicker; it may be absent.
func Compare(ctx context.Context, listing string, f Folder, cache string) ([]Difference, error) {
	base, err := readRecord(listing)
	if err != nil {
		return nil, fmt.Errorf("reading the listing %s: %w", listing, err)
	}
	last, _ := readRecord(cache) // without it everything is read
	now, err := digests(ctx, f, last)
	if err != nil {
		return nil, fmt.Errorf("looking through %s: %w", f.Path, err)
	}
	var found []Difference
	before, after := index(base), index(now)
	for _, e := range now {
		switch old := before[e.Path]; {
		case old == nil:
			found = append(found, Difference{e.Path, "added"})
		case !old.same(e):
			found = append(found, Difference{e.Path, "modified"})
		}
	}
	for _, old := range base {
		if after[old.Path] == nil {
			found = append(found, Difference{old.Path, "deleted"})
		}
	}
	return found, writeRecord(cache, now)
}

// same says whether two entries are the same work. What neither has a content of counts as the same.
func (e *entry) same(other *entry) bool {
	const executable = 0o100
	switch {
	case e.Kind != other.Kind:
		return false
	case e.Kind == kindFile:
		return e.Digest == other.Digest && e.Size == other.Size && e.Mode&executable == other.Mode&executable
	case e.Kind == kindLink:
		return e.Target == other.Target
	}
	return true
}
