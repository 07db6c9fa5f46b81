package snapshot_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/workspace/snapshot"
)

// TestCollect: what nobody asked for goes after its time, and so does what is of a sandbox that is gone;
// contents go when nothing has them.
func TestCollect(t *testing.T) {
	p := newPlace(t)
	made := func(sandbox, content string, automatic bool) string {
		files(t, p.folder.Path, map[string]string{"a": content})
		r := p.request()
		r.Sandbox, r.Automatic = sandbox, automatic
		one, err := p.store.Create(t.Context(), r)
		must(t, err)
		return one.ID
	}
	kept := made("here", "kept", false)
	made("here", "automatic", true)
	made("gone", "gone", false)
	objects, err := filepath.Glob(filepath.Join(p.store.Dir, "objects/*"))
	must(t, err)
	for _, dir := range append(objects, filepath.Join(p.store.Dir, "tmp")) { // left by killed processes
		must(t, os.WriteFile(filepath.Join(dir, "object-1"), nil, 0o600))
	}
	now := time.Now()
	collect := func(after time.Duration, dryRun bool) string {
		exists := func(sandbox string, of time.Time) bool { return sandbox == "here" && of.Equal(born) }
		said, err := p.store.Collect(snapshot.Collection{Exists: exists, Now: now.Add(after), DryRun: dryRun})
		must(t, err)
		return strings.Join(said, "\n")
	}
	const day = 24 * time.Hour
	for _, step := range []struct {
		after  time.Duration
		dryRun bool
		says   []string // in this order; none: it says nothing
		left   int      // contents
	}{
		{after: day, left: 3}, // from now on "gone" is known to be
		{after: 29 * day, left: 3},
		{after: 30*day + time.Hour, dryRun: true, says: []string{"of here", "1 contents"}, left: 3},
		{after: 30*day + time.Hour, says: []string{"of here", "1 contents"}, left: 2},
		{after: 31*day + time.Hour, says: []string{"of gone", "1 contents"}, left: 1},
		{after: 400 * day, left: 1},
	} {
		said := collect(step.after, step.dryRun)
		rest := said
		for _, word := range step.says {
			var ok bool
			if _, rest, ok = strings.Cut(rest, word); !ok {
				t.Errorf("after %v it says %q, without %q", step.after, said, word)
			}
		}
		if len(step.says) == 0 && said != "" {
			t.Errorf("after %v it says %q", step.after, said)
		}
		if left, _ := filepath.Glob(filepath.Join(p.store.Dir, "objects/*/*")); len(left) != step.left {
			t.Errorf("after %v %d contents are left, not %d", step.after, len(left), step.left)
		}
	}
	for pattern, want := range map[string][]string{"tmp/*": nil, "sandboxes/*/*": {filepath.Join(p.store.Dir, "sandboxes/here", kept)}} {
		if got, err := filepath.Glob(filepath.Join(p.store.Dir, pattern)); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %q, %v", pattern, got, err)
		}
	}
	must(t, p.store.Delete("here", kept))
	if said := collect(400*day, false); !strings.Contains(said, "1 contents") {
		t.Errorf("after deleting: %q", said)
	}
}

// TestCollectWithUnreadable: nobody knows what a snapshot needs that can't be read, so that nothing goes.
func TestCollectWithUnreadable(t *testing.T) {
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1"})
	one := p.create(t)
	path := filepath.Join(p.store.Dir, "sandboxes/work", one.ID)
	whole, err := os.ReadFile(path)
	must(t, err, os.WriteFile(path, append(whole, 'x'), 0o600))
	_, err = p.store.Collect(snapshot.Collection{Exists: func(string, time.Time) bool { return true }, Now: time.Now()})
	if err == nil || !strings.Contains(err.Error(), one.ID) {
		t.Errorf("%v", err)
	}
	must(t, os.WriteFile(path, whole, 0o600), os.WriteFile(p.path("a"), []byte("2"), 0o644))
	p.restore(t, one.ID)
	checkFiles(t, p.folder.Path, map[string]string{"a": "1"})
}

// TestAllAtOnce: snapshots of several sandboxes are made, restored, deleted and collected at the same time. What is listed in the end is whole.
func TestAllAtOnce(t *testing.T) {
	p := newPlace(t)
	there := func(string, time.Time) bool { return true }
	done := make(chan struct{})
	var makers, others sync.WaitGroup
	for _, sandbox := range []string{"one", "two"} {
		makers.Go(func() {
			folder := snapshot.Folder{Name: "main", Path: filepath.Join(filepath.Dir(p.folder.Path), sandbox)}
			request := snapshot.Request{Sandbox: sandbox, Of: born, Folders: []snapshot.Folder{folder}}
			for i := range 12 {
				files(t, folder.Path, map[string]string{"same": strings.Repeat("x", i), fmt.Sprint(i % 3): fmt.Sprint(sandbox, i), "still": "the same"})
				made, err := p.store.Create(t.Context(), request)
				if err == nil {
					_, err = p.store.Restore(t.Context(), sandbox, made.ID, request)
				}
				if err != nil && !errors.Is(err, forage.ErrUsage) { // deleted meanwhile
					t.Errorf("of %s: %v", sandbox, err)
				}
			}
		})
	}
	others.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			list, err := p.store.List("")
			if err == nil && len(list) > 3 {
				err = p.store.Delete(list[n%3].Sandbox, list[n%3].ID)
			}
			_, collecting := p.store.Collect(snapshot.Collection{Exists: there, Now: time.Now()})
			if err := errors.Join(err, collecting); err != nil {
				t.Error(err)
			}
		}
	})
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := p.store.Collect(snapshot.Collection{Exists: there, Now: time.Now()}); err != nil {
				t.Errorf("collecting: %v", err)
			}
		}
	})
	makers.Wait()
	close(done)
	others.Wait()
	list, err := p.store.List("")
	must(t, err)
	for _, one := range list {
		to := filepath.Join(t.TempDir(), "look")
		must(t, p.store.Export(t.Context(), one.Sandbox, one.ID, []snapshot.Folder{{Name: "main", Path: to}}))
	}
}
