package work

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"forage"
	"forage/internal/testdir"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// asked is a provider that counts how often it is asked.
type asked struct {
	workspace.Provider
	status workspace.Status
	times  int
}

func (a *asked) Status(context.Context, forage.Workspace) (workspace.Status, error) {
	a.times++
	return a.status, nil
}

func (a *asked) Update(context.Context, forage.Workspace) (workspace.Update, error) {
	a.times++
	return workspace.Update{}, nil
}

// Every change that Status looks at changes the stamp, a file of the same size and times included.
func TestStamp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		testdir.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testdir.Must(t, os.WriteFile(path, []byte("x"), 0o600))
		testdir.Must(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	}
	w := forage.Workspace{Path: filepath.Join(dir, "work"), Repository: &forage.Repository{
		Dir: filepath.Join(dir, "private"), Store: filepath.Join(dir, "store"),
	}}
	for _, name := range []string{"work/a", "private/git/HEAD", "private/git/objects/aa/x", "store/packed-refs", "store/objects/aa/x"} {
		write(name)
	}
	last := ""
	changes := func(want bool, what string) {
		t.Helper()
		now, changed, err := stamp(t.Context(), w)
		if err != nil || time.Since(changed) > time.Minute {
			t.Fatal(err, changed)
		}
		if (now != last) != want {
			t.Errorf("%s: the stamp changes: %v, want %v", what, !want, want)
		}
		last = now
	}
	changes(true, "the first")
	changes(false, "nothing")
	for _, name := range []string{
		"work/a", "work/objects/new", "private/git/HEAD", "private/git/refs/heads/b", "private/git/refs/heads/objects/b", "store/refs/heads/b",
	} {
		time.Sleep(10 * time.Millisecond) // the clock of a file system ticks
		write(name)
		changes(true, name)
	}
	for _, name := range []string{"private/git/objects/aa/y", "store/objects/aa/y"} {
		write(name)
		changes(false, name)
	}
	testdir.Must(t, gitrepo.NoteTaken(w, "1", "2"))
	changes(true, "what was taken over")
}

// An answer is kept only if the last change is so old that another one is seen.
func TestIsUnsaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := forage.Workspace{Path: filepath.Join(dir, "work"), Repository: &forage.Repository{Dir: dir, Store: filepath.Join(dir, "store")}}
	for _, name := range []string{"work", "git", "store"} {
		testdir.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	provider := &asked{}
	if got, err := (&Keeper{}).isUnsaved(t.Context(), provider, w, seen{}); err != nil || got != (seen{}) {
		t.Errorf("of a change a moment ago %+v is kept, %v", got, err)
	}
	now, _, err := stamp(t.Context(), w)
	testdir.Must(t, err)
	kept := seen{now, true}
	if got, err := (&Keeper{}).isUnsaved(t.Context(), provider, w, kept); err != nil || got != kept || provider.times != 2 {
		t.Errorf("without a change: %+v after %d questions, %v", got, provider.times, err)
	}
	testdir.Must(t, os.Remove(w.Path))
	provider.status.Problem = "gone"
	if got, err := (&Keeper{}).isUnsaved(t.Context(), provider, w, kept); err != nil || got != (seen{Unsaved: true}) {
		t.Errorf("without its folder: %+v, %v", got, err)
	}
}
