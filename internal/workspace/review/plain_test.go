package review

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/copied"
	"forage/internal/workspace/snapshot"
)

// newCopy is a folder of the user's, and a copy of it as fork makes one.
func newCopy(t *testing.T, files map[string]string) *box {
	t.Helper()
	state := t.TempDir()
	b := &box{t: t}
	source, tree := filepath.Join(t.TempDir(), "source"), filepath.Join(state, "workspaces/box")
	for name, content := range files {
		b.write(source, name, content)
		b.write(tree, name, content)
	}
	b.subject = Subject{
		Sandbox: "box", Places: workspace.PlacesIn(state, t.TempDir()),
		Workspace: forage.Workspace{Name: "main", Mode: forage.WorkspaceCopy, Path: tree, Source: source},
	}
	store := snapshot.Store{Dir: b.subject.Places.Snapshots}
	one, err := store.Create(t.Context(), snapshot.Request{Sandbox: "first", Folders: []snapshot.Folder{{Name: "main", Path: source}}})
	if err != nil {
		t.Fatal(err)
	}
	base := copied.Provider{Places: b.subject.Places}.Base(b.subject.Workspace)
	if err := errors.Join(os.MkdirAll(filepath.Dir(base), 0o700), store.WriteListing(t.Context(), "first", one.ID, "main", base)); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *box) files(dir string) map[string]string {
	b.t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, _ := os.ReadFile(path)
		all[name] = info.Mode().String() + " " + string(text)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func TestApplyOfACopyWritesWhatWasChanged(t *testing.T) {
	b := newCopy(t, map[string]string{"a": "1\r\n", "gone": "x", "same": "s", "mine": "m", ".gitignore": "*\n", "d/f": "f"})
	source, work := b.subject.Workspace.Source, b.subject.Workspace.Path
	b.write(work, "a", "2\r\n")
	b.write(work, "new/deep", "n")
	b.write(work, ".git/config", "[core]\n\tfsmonitor = touch /tmp/x\n")
	b.write(source, "mine", "changed by the user")
	if err := errors.Join(
		os.Remove(filepath.Join(work, "gone")), os.Chmod(filepath.Join(work, "d/f"), 0o755), os.Chmod(filepath.Join(source, "a"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	s := b.open()
	var got []string
	for _, c := range s.Changes {
		got = append(got, string(c.Status)+" "+c.Path)
	}
	if diff := cmp.Diff([]string{"modified a", "modified d/f", "deleted gone", "added new/deep"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if len(s.Left) == 0 {
		t.Error("the repository that was made is not said to be left out")
	}
	if patch := b.patch(false); !strings.Contains(patch, "-1\\r\n+2\\r\n") {
		t.Errorf("patch: %s", patch)
	}
	if done := b.mustApply(Options{}); done.Files != 4 || len(done.Notes) != 1 {
		t.Errorf("done: %+v", done)
	}
	want := map[string]string{
		"a": "-rw------- 2\r\n", "same": "-rw-r--r-- s", "mine": "-rw-r--r-- changed by the user", ".gitignore": "-rw-r--r-- *\n",
		"d/f": "-rwxr-xr-x f", "new/deep": "-rw-r--r-- n",
	}
	if diff := cmp.Diff(want, b.files(source)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if again := b.mustApply(Options{}); again.Changes() {
		t.Errorf("again: %+v", again)
	}
	b.write(work, "a", "3\r\n")
	if next := b.mustApply(Options{}); next.Files != 1 {
		t.Errorf("next: %+v", next)
	}
}

func TestApplyOfACopyIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(b *box, source, work string)
		words  string
	}{
		"changed on both sides": {func(b *box, source, _ string) { b.write(source, "a", "the user's") }, "changed in"},
		"added on both sides":   {func(b *box, source, work string) { b.write(source, "n", "1"); b.write(work, "n", "2") }, "changed in"},
		"a link that leaves": {func(b *box, _, work string) {
			if err := os.Symlink("../out", filepath.Join(work, "link")); err != nil {
				b.t.Fatal(err)
			}
		}, "link (a link to"},
		"a link through one that was there": {func(b *box, source, work string) {
			for _, dir := range []string{source, work} {
				if err := os.Symlink("../..", filepath.Join(dir, "d/e/up")); err != nil {
					b.t.Fatal(err)
				}
			}
			if err := os.Symlink("d/e/up/../x", filepath.Join(work, "link")); err != nil {
				b.t.Fatal(err)
			}
		}, "link (a link to"},
		"a folder where a sandbox writes": {func(*box, string, string) {}, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCopy(t, map[string]string{"a": "1\n", "d/e/f": "1\n"})
			source, work := b.subject.Workspace.Source, b.subject.Workspace.Path
			b.write(work, "a", "2\n")
			test.change(b, source, work)
			before := b.files(source)
			_, err := b.apply(Options{Quiet: func(string) error {
				if test.words == "busy" {
					return forage.Errorf(forage.ErrRefused, "busy")
				}
				return nil
			}})
			if !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("apply: %v", err)
			}
			if diff := cmp.Diff(before, b.files(source)); diff != "" {
				t.Errorf("something was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestApplyOfACopyAfterAKill(t *testing.T) {
	b := newCopy(t, map[string]string{"a": "1\n", "gone": "x\n"})
	source, work := b.subject.Workspace.Source, b.subject.Workspace.Path
	b.write(work, "a", "2\n")
	b.write(work, "new", "n\n")
	if err := os.Remove(filepath.Join(work, "gone")); err != nil {
		t.Fatal(err)
	}
	before := b.files(source)
	s := b.open()
	if err := plainInstallation(s.store, s.staging, s.subject, s.base, s.Tree).write(s.subject.folder()); err != nil {
		t.Fatal(err)
	}
	b.write(source, "a", "2\n") // so far it had come
	b.write(source, "new", "n\n")
	if _, err := s.Apply(t.Context(), Options{DryRun: true}); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("a rehearsal: %v", err)
	}
	if err := Recover(t.Context(), b.subject, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, b.files(source)); diff != "" {
		t.Errorf("taken back (-before +after):\n%s", diff)
	}
	b.mustApply(Options{})
	if _, err := os.Lstat(filepath.Join(source, "gone")); err == nil {
		t.Error("gone is there")
	}
}
