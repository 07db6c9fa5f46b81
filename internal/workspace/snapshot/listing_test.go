package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/workspace/snapshot"
)

// TestCompare: what is the same work is no difference, whenever it was written.
func TestCompare(t *testing.T) {
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"same": "1", "changed": "1", "gone": "1", "x": "1", "dir/f": "1", "l": "-> same"})
	one := p.create(t)
	dir := t.TempDir()
	listing, cache := filepath.Join(dir, "base"), filepath.Join(dir, "now")
	must(t, p.store.WriteListing(t.Context(), "work", one.ID, "main", listing))
	must(t, p.store.Delete("work", one.ID))
	compare := func() (found []snapshot.Difference) {
		t.Helper()
		found, err := snapshot.Compare(t.Context(), listing, p.folder, cache)
		must(t, err)
		return found
	}
	if found := compare(); len(found) > 0 {
		t.Errorf("at once: %v", found)
	}
	must(t, os.Remove(p.path("gone")), os.Remove(p.path("l")), os.Chmod(p.path("x"), 0o755), os.RemoveAll(p.path("dir")))
	files(t, p.folder.Path, map[string]string{"same": "1", "changed": "2", "new/f": "1", "l": "-> x", "dir": "a file"})
	want := []snapshot.Difference{
		{"changed", "modified"}, {"dir", "modified"}, {"l", "modified"}, {"new", "added"}, {"new/f", "added"}, {"x", "modified"},
		{"dir/f", "deleted"}, {"gone", "deleted"},
	}
	for range 2 { // with and without a cache
		if d := cmp.Diff(want, compare()); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
	must(t, os.WriteFile(listing, []byte("something else, and long enough to have a digest at its end"), 0o600))
	if _, err := snapshot.Compare(t.Context(), listing, p.folder, cache); err == nil {
		t.Error("a damaged listing is taken")
	}
}

// TestMaxCopied: what would have to be copied is bounded, and what is there already costs nothing.
func TestMaxCopied(t *testing.T) {
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "0123456789", "b": "abcdefghij"})
	r := p.request()
	r.MaxCopied = 15
	switch _, err := p.store.Create(t.Context(), r); {
	case err == nil:
		t.Skip("the file system shares blocks: nothing is copied")
	case !errors.Is(err, forage.ErrRefused):
		t.Fatal(err)
	}
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	p.create(t)
	if _, err := p.store.Create(t.Context(), r); err != nil {
		t.Error(err)
	}
}
