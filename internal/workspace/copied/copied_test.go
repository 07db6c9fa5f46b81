package copied_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/copied"
	"forage/internal/workspace/snapshot"
)

// TestCopy: what is done in a copy is known, kept when it is removed by force, and nowhere else.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	places := workspace.PlacesIn(filepath.Join(dir, "state"), filepath.Join(dir, "run"))
	source := filepath.Join(dir, "source")
	must(t, os.Mkdir(source, 0o755), os.WriteFile(filepath.Join(source, "a"), []byte("1"), 0o644))
	p := copied.Provider{Places: places}
	request := workspace.Request{Sandbox: "box", Name: "deps", Path: source, Target: "/deps", Places: places}
	w, err := p.Plan(t.Context(), request)
	must(t, err)
	want := forage.Workspace{Name: "deps", Mode: forage.WorkspaceCopy, Path: filepath.Join(places.Trees, "box.deps"), Target: "/deps", Source: source}
	if d := cmp.Diff(want, w); d != "" {
		t.Fatalf("-want +got\n%s", d)
	}
	if _, err := os.Lstat(places.Trees); err == nil {
		t.Error("planning made something")
	}
	must(t, p.Create(t.Context(), w))
	if err := p.Create(t.Context(), w); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := p.Plan(t.Context(), request); !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" {
		t.Errorf("planned again: %v", err)
	}
	fill(t, places, p, w)

	checkStatus(t, p, w, nil)
	must(t, os.WriteFile(filepath.Join(w.Path, "a"), []byte("2"), 0o644), os.Mkdir(filepath.Join(w.Path, "closed"), 0o700))
	checkStatus(t, p, w, []string{"a", "closed"})
	for text, want := range map[string][]string{"2": {"closed"}, "3": {"a", "closed"}, "1": {"a", "closed"}} { // what the source has too is not lost
		must(t, os.WriteFile(filepath.Join(source, "a"), []byte(text), 0o644))
		checkStatus(t, p, w, want)
	}
	must(t, os.WriteFile(filepath.Join(source, "a"), []byte("2"), 0o644), os.Chmod(filepath.Join(source, "a"), 0o755))
	checkStatus(t, p, w, []string{"a", "closed"})
	must(t, os.Remove(filepath.Join(source, "a")), unix.Mkfifo(filepath.Join(source, "a"), 0o600))
	checkStatus(t, p, w, []string{"a", "closed"})
	must(t, os.Remove(filepath.Join(source, "a")), os.WriteFile(filepath.Join(source, "a"), []byte("1"), 0o644))
	if _, err := p.Remove(t.Context(), w, workspace.RemoveSaved); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("removed with work in it: %v", err)
	}
	kept, err := p.Remove(t.Context(), w, workspace.RemoveForced)
	must(t, err)
	if len(kept) != 1 || kept[0].Sandbox != "box" {
		t.Fatalf("%+v", kept)
	}
	if text, err := os.ReadFile(filepath.Join(kept[0].Folder, "a")); err != nil || string(text) != "2" {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{w.Path, places.Repository("box", "deps")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there still", path)
		}
	}
	if text, err := os.ReadFile(filepath.Join(source, "a")); err != nil || string(text) != "1" {
		t.Errorf("the source has %q, %v", text, err)
	}
	again, err := p.Remove(t.Context(), w, workspace.RemoveForced)
	if err != nil || len(again) > 0 {
		t.Errorf("what is gone: %v, %v", again, err)
	}
}

// fill does what fork does.
func fill(t *testing.T, places workspace.Places, p copied.Provider, w forage.Workspace) {
	t.Helper()
	store := snapshot.Store{Dir: places.Snapshots}
	made, err := store.Create(t.Context(), snapshot.Request{Sandbox: "first", Of: time.Now(), Folders: []snapshot.Folder{{Name: "deps", Path: w.Source}}})
	must(t, err)
	must(t, store.Export(t.Context(), "first", made.ID, []snapshot.Folder{{Name: "deps", Path: w.Path}}))
	must(t, store.WriteListing(t.Context(), "first", made.ID, "deps", p.Base(w)))
}

func checkStatus(t *testing.T, p copied.Provider, w forage.Workspace, want []string) {
	t.Helper()
	status, err := p.Status(t.Context(), w)
	must(t, err)
	if d := cmp.Diff(workspace.Status{Uncommitted: want, UncommittedCount: len(want)}, status); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestUnused: a creation that came to nothing leaves nothing.
func TestUnused(t *testing.T) {
	dir := t.TempDir()
	places := workspace.PlacesIn(filepath.Join(dir, "state"), filepath.Join(dir, "run"))
	p := copied.Provider{Places: places}
	w, err := p.Plan(t.Context(), workspace.Request{Sandbox: "box", Name: workspace.Main, Path: dir, Places: places})
	must(t, err, p.Create(t.Context(), w))
	if _, err := p.Remove(t.Context(), w, workspace.RemoveUnused); err != nil {
		t.Error(err)
	}
	for _, path := range []string{w.Path, places.Repository("box", workspace.Main)} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there still", path)
		}
	}
	// What is there already is somebody's, and nothing is made beside it.
	must(t, os.MkdirAll(w.Path, 0o700))
	if err := p.Create(t.Context(), w); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("where a folder is: %v", err)
	}
	if _, err := os.Lstat(places.Repository("box", workspace.Main)); err == nil {
		t.Error("a creation that was refused has left something")
	}
	// Without the listing nobody knows what was done: then all of it is work.
	if status, err := p.Status(t.Context(), w); err != nil || !status.Unsaved() {
		t.Errorf("%+v, %v", status, err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestGivenUp: a look that is given up is no work that would be lost, and one that fails is said to have failed.
func TestGivenUp(t *testing.T) {
	dir := t.TempDir()
	places := workspace.PlacesIn(filepath.Join(dir, "state"), filepath.Join(dir, "run"))
	source := filepath.Join(dir, "source")
	must(t, os.Mkdir(source, 0o755), os.WriteFile(filepath.Join(source, "a"), []byte("1"), 0o644))
	p := copied.Provider{Places: places}
	w, err := p.Plan(t.Context(), workspace.Request{Sandbox: "box", Name: "deps", Path: source, Target: "/deps", Places: places})
	must(t, err, p.Create(t.Context(), w))
	fill(t, places, p, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if kept, err := p.Remove(ctx, w, workspace.RemoveForced); !errors.Is(err, context.Canceled) || len(kept) > 0 {
		t.Errorf("a removal that was given up: kept %v, %v", kept, err)
	}
	for _, folder := range []string{source, w.Path} { // which take hours to compare
		big := filepath.Join(folder, "big")
		must(t, os.WriteFile(big, nil, 0o644), os.Truncate(big, 1<<42))
	}
	ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := p.Status(ctx, w); ended <- err }()
	for deadline := time.Now().Add(5 * time.Minute); !isOpen(filepath.Join(source, "big")) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a look that was given up: %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the look goes on")
	}
	must(t, os.Remove(p.Base(w)))
	if _, err := p.Remove(t.Context(), w, workspace.RemoveSaved); !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), filepath.Base(p.Base(w))) {
		t.Errorf("a removal without a look: %v", err)
	}
}

// isOpen says whether this process has a file open.
func isOpen(path string) bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if at, _ := os.Readlink(link); at == path {
			return true
		}
	}
	return false
}
