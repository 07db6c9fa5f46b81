package image

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/testdir"
)

func TestPrune(t *testing.T) {
	img, _ := sample(t)
	two := imageOf(t, tarOf(t, moded(dir("d"), 0), moded(file("d/two", "2"), 0)))
	cacheDir := filepath.Join(t.TempDir(), "cache")
	if removed, err := Prune(cacheDir, PruneOptions{}); len(removed) > 0 || err != nil {
		t.Errorf("removed %v from no cache, %v", removed, err)
	}
	fs := forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, img)}
	one, _, err := Resolve(t.Context(), fs, cacheDir, Limits{})
	testdir.Must(t, err)
	before := time.Now().Add(-time.Minute) // not in one tick of the clock with the other
	testdir.Must(t, os.Chtimes(filepath.Dir(one[0]), before, before))
	other, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, two)}, cacheDir, Limits{})
	testdir.Must(t, err)
	leftover := filepath.Join(cacheDir, "tmp", "unpack-1")
	testdir.Must(t, os.MkdirAll(filepath.Join(leftover, "tree/rootfs/x"), 0o700))
	held, done, err := cache{cacheDir}.temporary(t.Context())
	testdir.Must(t, err)
	check := func(o PruneOptions, want ...string) {
		t.Helper()
		removed, err := Prune(cacheDir, o)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, removed); diff != "" {
			t.Errorf("%+v removed (-want +got):\n%s", o, diff)
		}
	}
	check(PruneOptions{InUse: one, DryRun: true}, other[0])
	if _, err := os.Stat(held); err != nil {
		t.Errorf("a folder in use was removed: %v", err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	check(PruneOptions{InUse: one, DryRun: true}, other[0], leftover)
	check(PruneOptions{Unused: time.Hour, DryRun: true}, leftover)
	check(PruneOptions{InUse: one}, other[0], leftover)
	check(PruneOptions{InUse: one})
	t.Chdir(filepath.Dir(cacheDir)) // however the cache is called
	if removed, err := Prune("cache", PruneOptions{InUse: one}); len(removed) > 0 || err != nil {
		t.Errorf("by a relative path: %v, %v", removed, err)
	}
	for path, want := range map[string]bool{one[0]: true, other[0]: false, leftover: false, held: false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s there: %v, want %v", path, err == nil, want)
		}
	}
	again, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, two)}, cacheDir, Limits{})
	if err != nil || again[0] != other[0] {
		t.Errorf("unpacked again: %v, %v", again, err)
	}
}
