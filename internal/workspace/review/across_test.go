package review

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// The state folder may be on another file system than the repository: nothing is linked or renamed from the one to the other.
func TestApplyAcrossFileSystems(t *testing.T) {
	t.Parallel()
	const memory = "/dev/shm" // which everybody can write to
	var here, there unix.Stat_t
	if err := errors.Join(unix.Stat(t.TempDir(), &here), unix.Stat(memory, &there)); err != nil || here.Dev == there.Dev {
		t.Skipf("%s is no other file system: %v", memory, err)
	}
	for name, test := range map[string]struct {
		options Options
		files   string
	}{
		"merge":           {Options{}, "a\nmine\nnew\nwork"},
		"paths":           {Options{Paths: []string{"new"}}, "a\nmine\nnew"},
		"another branch":  {Options{Into: "other"}, "a\nnew\nwork"},
		"clone and merge": {Options{}, "a\nmine\nnew\nwork"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			w := &b.subject.Workspace
			state, err := os.MkdirTemp(memory, "forage-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(state) })
			b.subject.Places = workspace.PlacesIn(state, t.TempDir())
			w.Repository.Dir = filepath.Join(state, "repositories/box/main")
			if err := os.MkdirAll(filepath.Dir(w.Repository.Dir), 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "clone and merge" {
				w.Mode, w.Repository.Store = "clone", filepath.Join(state, "store")
				b.user.Git("clone", "-q", "--bare", "--shared", "--config", "forage.store=true", ".", w.Repository.Store)
				clone := *b.user
				clone.Dir = w.Repository.Store
				b.user.Git("worktree", "remove", "--force", w.Path)
				b.user.Git("branch", "-q", "-D", "forage-box")
				clone.Git("worktree", "add", "-q", "-B", "forage-box", w.Path, "main")
			}
			b.write(b.work.Dir, "work", "w\n")
			b.commit("work")
			b.write(b.work.Dir, "new", "n\n")
			if test.options.Into == "" {
				b.user.Commit("mine", "m\n")
			}
			done := b.mustApply(test.options)
			if files := b.user.Git("ls-tree", "-r", "--name-only", done.Branch); files != test.files {
				t.Errorf("files: %q, want %q", files, test.files)
			}
			if status := b.user.Git("status", "--porcelain"); status != "" {
				t.Errorf("status: %q", status)
			}
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
			b.user.Git("fsck", "--strict")
			if left, _ := filepath.Glob(filepath.Join(b.user.Dir, ".git/objects/tmp_*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}
