package image

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"forage"
)

func TestPrune(t *testing.T) {
	img, _ := sample(t)
	two := imageOf(t, tarOf(t, moded(dir("d"), 0), moded(file("d/two", "2"), 0)))
	cacheDir := filepath.Join(t.TempDir(), "cache")
	if trees, err := List(cacheDir); len(trees) > 0 || err != nil {
		t.Errorf("no cache holds %v, %v", trees, err)
	}
	if removed, err := Prune(cacheDir, PruneOptions{}); len(removed) > 0 || err != nil {
		t.Errorf("removed %v from no cache, %v", removed, err)
	}
	fs := forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, img)}
	one, _, err := Resolve(t.Context(), fs, cacheDir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-time.Minute) // not in one tick of the clock with the other
	if err := os.Chtimes(filepath.Join(filepath.Dir(one[0]), "tree.json"), before, before); err != nil {
		t.Fatal(err)
	}
	other, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, two)}, cacheDir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	trees, err := List(cacheDir)
	if err != nil || len(trees) != 2 || trees[0].Path != one[0] || trees[0].Name != "oci:"+fs.Ref || trees[0].Bytes != 5 || trees[0].Entries != 9 {
		t.Errorf("the cache holds %+v, %v", trees, err)
	}
	leftover := filepath.Join(cacheDir, "tmp", "unpack-1")
	if err := os.MkdirAll(filepath.Join(leftover, "tree/rootfs/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	held, done, err := cache{cacheDir}.temporary()
	if err != nil {
		t.Fatal(err)
	}
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
	check(PruneOptions{InUse: one, DryRun: true}, other[0], leftover)
	check(PruneOptions{Unused: time.Hour, DryRun: true}, leftover)
	check(PruneOptions{InUse: one}, other[0], leftover)
	check(PruneOptions{InUse: one})
	t.Chdir(filepath.Dir(cacheDir)) // however the cache is called
	if removed, err := Prune("cache", PruneOptions{InUse: one}); len(removed) > 0 || err != nil {
		t.Errorf("by a relative path: %v, %v", removed, err)
	}
	if _, err := os.Stat(held); err != nil {
		t.Errorf("a folder in use was removed: %v", err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]bool{one[0]: true, other[0]: false, leftover: false, held: false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s there: %v, want %v", path, err == nil, want)
		}
	}
	again, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, two)}, cacheDir, Options{})
	if err != nil || again[0] != other[0] {
		t.Errorf("unpacked again: %v, %v", again, err)
	}
}

// TestPruneBesideResolve removes trees as quickly as they are made.
func TestPruneBesideResolve(t *testing.T) {
	img, want := sample(t)
	fs := forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeLayout(t, mutate.IndexAddendum{Add: img})}
	cacheDir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := Prune(cacheDir, PruneOptions{Unused: time.Minute}); err != nil {
				t.Error(err)
			}
			stale(t, cacheDir)
		}
	})
	for range 50 {
		lower, _, err := Resolve(t.Context(), fs, cacheDir, Options{})
		if err != nil {
			t.Error(err)
		}
		if len(lower) == 1 {
			checkWhole(t, lower[0], want)
		}
	}
	stop()
	wg.Wait()
}

// stale makes every tree look unused for long.
func stale(t testing.TB, cacheDir string) {
	records, err := filepath.Glob(filepath.Join(cacheDir, "trees-1/*/tree.json"))
	if err != nil {
		t.Error(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, r := range records {
		_ = os.Chtimes(r, old, old) // it may be gone
	}
}

// checkWhole fails if a tree that is there lacks something.
func checkWhole(t testing.TB, tree string, want map[string]string) {
	t.Helper()
	for name := range want {
		_, err := os.Lstat(filepath.Join(tree, name))
		if _, gone := os.Lstat(tree); err != nil && gone == nil {
			t.Errorf("half a tree: %v", err)
		}
	}
}

// TestKilled kills a process in the middle of unpacking.
func TestKilled(t *testing.T) {
	if ref, cacheDir := os.Getenv("IMAGE_TEST_REF"), os.Getenv("IMAGE_TEST_CACHE"); ref != "" {
		_, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsImage, Ref: ref}, cacheDir, Options{})
		t.Fatalf("not killed: %v", err)
	}
	img, want := sample(t)
	server := newRegistry(t)
	ref := server.push(t, img)
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	last, err := layers[1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{})
	var once sync.Once
	server.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, last.String()) {
			once.Do(func() { close(reached) })
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	cacheDir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "IMAGE_TEST_REF="+ref, "IMAGE_TEST_CACHE="+cacheDir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-reached:
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
	case err := <-ended:
		t.Fatalf("the child asks for no layer: %v", err)
	}
	if trees, err := List(cacheDir); len(trees) > 0 || err != nil {
		t.Errorf("the cache believes %v, %v", trees, err)
	}
	server.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) })
	lower, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsImage, Ref: ref}, cacheDir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, contents(t, lower[0])); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if removed, err := Prune(cacheDir, PruneOptions{InUse: lower}); len(removed) != 1 || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	checkClean(t, cacheDir)
}
