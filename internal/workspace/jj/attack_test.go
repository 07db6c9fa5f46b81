package jj_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"forage"
	"forage/internal/workspace"
)

// TestHostileMetadata changes the private repository in ways that jj would not. None of it may come to the host, or
// keep us waiting, and what was brought before stays.
func TestHostileMetadata(t *testing.T) {
	t.Parallel()
	only := func(dir string) string { // the one operation at the head
		entries, err := os.ReadDir(filepath.Join(dir, "repo/op_heads/heads"))
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v: %v", entries, err)
		}
		return entries[0].Name()
	}
	instead := func(name string, make func(path string) error) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return make(path)
		}
	}
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	for name, test := range map[string]struct {
		attack func(dir string) error
		fine   bool // it is no attack on what we read
	}{
		"other settings, types and places": {func(dir string) error {
			return errors.Join(
				os.WriteFile(filepath.Join(dir, "repo/config.toml"), []byte("ui.editor='false'"), 0o600),
				os.WriteFile(filepath.Join(dir, "repo/store/git_target"), []byte("/"), 0o600),
				os.WriteFile(filepath.Join(dir, "repo/store/type"), []byte("simple"), 0o600))
		}, true},
		"heads are a FIFO":       {instead("repo/op_heads/heads", fifo), false},
		"an operation is absent": {instead("repo/op_store/operations", func(p string) error { return os.Mkdir(p, 0o700) }), false},
		"checkout is a FIFO":     {instead("working_copy/checkout", fifo), false},
		"checkout is garbage":    {instead("working_copy/checkout", func(p string) error { return os.WriteFile(p, []byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}, 0o600) }), false},
		"the folder is a link":   {instead("", func(p string) error { return os.Symlink("/etc", p) }), false},
		"the folder is gone":     {instead("", func(string) error { return nil }), false},
		"an operation is a FIFO": {func(dir string) error { return instead("repo/op_store/operations/"+only(dir), fifo)(dir) }, false},
		"an endless operation": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "repo/op_store/operations", only(dir)), 1<<40)
		}, false},
		"a view's heads aren't there": {func(dir string) error {
			view := append([]byte{0x0a, 20}, []byte(strings.Repeat("x", 20))...)
			return overwriteView(dir, only(dir), view)
		}, false},
		"a commit of billions of files": {func(dir string) error {
			commit, err := commitOfBillions(filepath.Join(dir, "../git"))
			if err != nil {
				return err
			}
			head := "\x0a\x14" + commit
			at := "\x0a\x01x\x12\x14" + commit // of a working copy
			return overwriteView(dir, only(dir), []byte(head+"\x42"+string(rune(len(at)))+at))
		}, false},
		"a view is a bomb": {func(dir string) error {
			return overwriteView(dir, only(dir), []byte(strings.Repeat("\x0a\x14"+strings.Repeat("y", 20), 200_000)))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.inside().Commit("new.txt", "from inside\n")
			before := b.update().After
			b.inside().Run("jj describe -m 'second'")
			if err := test.attack(filepath.Join(b.work.Repository.Dir, "jj")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			u, err := b.Update(ctx, b.work)
			if test.fine != (err == nil) {
				t.Errorf("update: %+v, %v", u, err)
			}
			status, err := b.Status(ctx, b.work)
			if err != nil || !test.fine && status.Problem == "" {
				t.Errorf("status: %+v, %v", status, err)
			}
			if ctx.Err() != nil {
				t.Error("reading it takes forever")
			}
			if _, err := b.Remove(t.Context(), b.work, workspace.RemoveSaved); err == nil {
				t.Error("the workspace is removed, and with it what could not be read")
			}
			if got := b.tip("%H"); !test.fine && got != before {
				t.Errorf("the bookmark is at %s", got)
			}
			if out := b.jj("status"); strings.Contains(out, "stale") {
				t.Errorf("jj status shows\n%s", out)
			}
		})
	}
}

// commitOfBillions makes a commit with few objects and ten to the tenth files, and returns its id in bytes.
func commitOfBillions(gitDir string) (string, error) {
	git := func(stdin string, args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_DIR="+gitDir, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	id, err := git("boom", "hash-object", "-w", "--stdin")
	kind := "100644 blob "
	for range 10 {
		if err != nil {
			return "", err
		}
		var tree strings.Builder
		for i := range 10 {
			fmt.Fprintf(&tree, "%s%s\tf%d\n", kind, id, i)
		}
		id, err = git(tree.String(), "mktree")
		kind = "040000 tree "
	}
	if err != nil {
		return "", err
	}
	if id, err = git("boom", "commit-tree", id); err != nil {
		return "", err
	}
	raw, err := hex.DecodeString(id)
	return string(raw), err
}

// overwriteView replaces the view of an operation, which names it in its first field.
func overwriteView(dir, operation string, view []byte) error {
	text, err := os.ReadFile(filepath.Join(dir, "repo/op_store/operations", operation))
	if err != nil {
		return err
	}
	const digits = "0123456789abcdef"
	var name strings.Builder
	for _, b := range text[2:66] {
		name.WriteByte(digits[b>>4])
		name.WriteByte(digits[b&15])
	}
	return os.WriteFile(filepath.Join(dir, "repo/op_store/views", name.String()), view, 0o600)
}

// TestUsersChange has somebody inside make a commit that says it is the user's own change. The user's commit,
// bookmarks and working copy stay what they are.
func TestUsersChange(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	state := func() string {
		return b.jj("log", "--no-graph", "-r", "main | @", "-T", `commit_id ++ "\n"`)
	}
	before := state()
	b.inside().Run("echo more >>file.txt && jj squash --into main -m 'rewritten inside' --ignore-immutable")
	b.update()
	if after := state(); after != before {
		t.Errorf("the user's commits were\n%s\nand are\n%s", before, after)
	}
	if out := b.jj("status"); strings.Contains(out, "stale") {
		t.Errorf("jj status shows\n%s", out)
	}
	if got := b.tip("%s"); !strings.Contains(got, "rewritten inside") {
		t.Errorf("the bookmark is at %q", got)
	}
}

// TestOtherHeads has work that is on no bookmark and not where the sandbox is.
func TestOtherHeads(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	i := b.inside()
	i.Commit("one.txt", "1\n")
	i.Run("jj new main -m 'another head' && echo two >two.txt && jj new main")
	b.update()
	status, err := b.Status(t.Context(), b.work)
	if err != nil || len(status.Elsewhere) != 2 {
		t.Fatalf("status: %+v, %v", status, err)
	}
	if _, err := b.Remove(t.Context(), b.work, workspace.RemoveSaved); err == nil {
		t.Fatal("removed, with commits that are nowhere else")
	}
	kept, err := b.Remove(t.Context(), b.work, workspace.RemoveForced)
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	var files []string
	for _, r := range kept {
		files = append(files, b.Git(r.Store, "--git-dir=.", "ls-tree", "--name-only", r.Ref))
	}
	if all := strings.Join(files, "\n"); !strings.Contains(all, "one.txt") || !strings.Contains(all, "two.txt") {
		t.Errorf("kept are\n%s", all)
	}
}

// TestDamaged removes a workspace whose private repository can't be read: by force, and what there is is kept.
func TestDamaged(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.inside().Commit("one.txt", "1\n")
	b.update()
	b.inside().Run("echo two >two.txt")
	if err := os.RemoveAll(filepath.Join(b.work.Repository.Dir, "jj/repo/op_heads")); err != nil {
		t.Fatal(err)
	}
	kept, err := b.Remove(t.Context(), b.work, workspace.RemoveForced)
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	if got, err := os.ReadDir(kept[1].Folder); err != nil || len(got) != 2 {
		t.Errorf("of the metadata is kept %v, %v", got, err)
	}
	if got := b.Git(kept[0].Store, "--git-dir=.", "ls-tree", "--name-only", kept[0].Ref); !strings.Contains(got, "one.txt\ntwo.txt") {
		t.Errorf("kept are\n%s", got)
	}
}

// TestRepositoryGone has the user delete the repository: what nobody can look at is not removed.
func TestRepositoryGone(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.inside().Commit("one.txt", "1\n")
	if err := os.RemoveAll(b.repo); err != nil {
		t.Fatal(err)
	}
	for _, how := range []workspace.Removal{workspace.RemoveSaved, workspace.RemoveForced} {
		if kept, err := b.Remove(t.Context(), b.work, how); !errors.Is(err, forage.ErrRefused) || len(kept) > 0 {
			t.Errorf("%v: kept %+v, %v", how, kept, err)
		}
	}
	if _, err := b.Remove(t.Context(), b.work, workspace.RemoveUnused); err != nil { // when it was set aside
		t.Error(err)
	}
	if _, err := os.Lstat(b.work.Path); err == nil {
		t.Error("the folder is left")
	}
}
