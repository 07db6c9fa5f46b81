package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Difference is a file, link or folder that is not as a listing has it. Path comes from inside: escape it.
type Difference struct {
	Path   string
	Status string // "added", "modified" or "deleted"
}

// WriteListing writes what a folder of a snapshot consists of, without the contents, to a file that outlives it.
func (s Store) WriteListing(sandbox, id, folder, path string) error {
	if err := s.check(sandbox, id); err != nil {
		return err
	}
	m, err := readManifest(s.path(sandbox, id))
	if err != nil {
		return fmt.Errorf("reading snapshot %s: %w", id, err)
	}
	c := m.contents(folder)
	if c == nil {
		return fmt.Errorf("snapshot %s is without %s", id, folder)
	}
	return c.write(path)
}

func (c *contents) write(path string) error {
	var b bytes.Buffer
	if err := c.encode(&b); err != nil {
		return err
	}
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	return renameio.WriteFile(path, b.Bytes(), 0o600, renameio.WithTempDir(filepath.Dir(path)))
}

func readListing(path string) (*contents, error) {
	body, err := readSummed(path)
	if err != nil {
		return nil, err
	}
	c, _, err := decode(body)
	if err != nil {
		return nil, damaged(err)
	}
	return c, nil
}

// Compare says in which paths f differs from a listing: in content, kind, permission to execute or target. cache is a
// file of ours that makes the next call quicker; it may be absent.
func Compare(ctx context.Context, listing string, f Folder, cache string) ([]Difference, error) {
	base, err := readListing(listing)
	if err != nil {
		return nil, fmt.Errorf("reading the listing %s: %w", listing, err)
	}
	last, _ := readListing(cache) // without it everything is read
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	in := &intake{ctx: ctx, giveUp: giveUp, now: time.Now, listing: true}
	now, err := in.take(f, last, nil)
	if err != nil {
		return nil, fmt.Errorf("looking through %s: %w", f.Path, err)
	}
	var found []Difference
	for _, e := range now.entries {
		switch old := base.find(e.path); {
		case old == nil:
			found = append(found, Difference{e.path, "added"})
		case !old.same(e):
			found = append(found, Difference{e.path, "modified"})
		}
	}
	for _, old := range base.entries {
		if now.find(old.path) == nil {
			found = append(found, Difference{old.path, "deleted"})
		}
	}
	return found, now.write(cache)
}

// same says whether two entries are the same work. What neither has a content of counts as the same.
func (e *entry) same(other *entry) bool {
	const executable = 0o100
	return e.kind == other.kind && (e.kind != kindFile || e.digest == other.digest && e.size == other.size && e.mode&executable == other.mode&executable) &&
		(e.kind != kindLink || e.target == other.target)
}
