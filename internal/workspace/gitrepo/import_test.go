package gitrepo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/workspace"
)

func TestImportBringsCommitsToTheBranch(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			b := newBox(t, newHost(t, "--object-format="+format), "box")
			if update := b.importIt(); update.Before != update.After {
				t.Errorf("nothing was done inside, and the branch moved: %+v", update)
			}
			tip := b.inside.Commit("c", "three\n")
			want := workspace.Update{Before: b.work.Base, After: tip}
			if diff := cmp.Diff(want, b.importIt()); diff != "" {
				t.Errorf("the first commit (-want +got):\n%s", diff)
			}
			// Packed, amended, and with a folder.
			b.inside.Git("gc", "-q", "--prune=now")
			write(t, filepath.Join(b.work.Path, "sub/d"), "four\n")
			b.inside.Git("add", "-A")
			b.inside.Git("commit", "-q", "--amend", "-m", "other words")
			b.inside.Git("tag", "-a", "-m", "not imported", "v1")
			amended := b.inside.Git("rev-parse", "HEAD")
			if diff := cmp.Diff(workspace.Update{Before: tip, After: amended}, b.importIt()); diff != "" {
				t.Errorf("an amended commit (-want +got):\n%s", diff)
			}
			if got := b.branch(); got != amended {
				t.Errorf("the branch is at %s, want %s", got, amended)
			}
			if got := b.outside.Git("status", "--porcelain"); got != "" {
				t.Errorf("git status on the host after an import:\n%s", got)
			}
			if got := b.host.Git("for-each-ref", "--format=%(refname)", "refs/tags"); got != "" {
				t.Errorf("other refs were imported: %s", got)
			}
			b.sound()
		})
	}
}

func TestImportOfAPackThatNeedsLooseObjects(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	first := b.inside.Commit("c", "three\n")
	second := b.inside.Commit("d", "four\n")
	list := second + "\n" + b.inside.Git("rev-parse", second+"^{tree}") + "\n"
	if _, messages, err := b.inside.Run([]byte(list), "pack-objects", "-q", b.path("objects/pack/pack")); err != nil {
		t.Fatal(messages)
	}
	for _, id := range lines(list) {
		must(t, os.Remove(b.path("objects", id[:2], id[2:])))
	}
	if update := b.importIt(); update.After != second || !b.has(first) {
		t.Errorf("imported %+v, want %s", update, second)
	}
	b.sound()
}

func TestImportIsCheapWhenNothingChanged(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Commit("c", "three\n")
	want := b.importIt().After
	// Whatever starts a process or looks at the host's repository fails from here on.
	must(t, os.Rename(b.work.Repository.Store, b.work.Repository.Store+".moved"))
	if update := b.importIt(); update.Before != want || update.After != want {
		t.Errorf("got %+v, want both %s", update, want)
	}
}

func TestImportLeavesABranchAloneThatTheUserMoved(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Commit("c", "three\n")
	b.importIt()
	b.outside.Git("commit", "-q", "--allow-empty", "-m", "the user's")
	theirs := b.branch()
	inside := b.inside.Commit("d", "four\n")
	if update := b.importIt(); update.Before != theirs || update.After != theirs || b.branch() != theirs {
		t.Errorf("got %+v and the branch at %s, want it left at %s", update, b.branch(), theirs)
	}
	if status := b.unsaved(); status.Problem == "" || !strings.Contains(status.Problem, "moved") {
		t.Errorf("the problem is not told: %+v", status)
	}
	// Moved back, the import goes on; deleted, it is made again.
	b.host.Git("update-ref", "refs/heads/"+b.work.Branch, theirs+"^")
	if update := b.importIt(); update.After != inside {
		t.Errorf("moved back: %+v, want %s", update, inside)
	}
	b.host.Git("update-ref", "-d", "refs/heads/"+b.work.Branch)
	last := b.inside.Commit("e", "five\n")
	if update := b.importIt(); update.After != last || b.branch() != last {
		t.Errorf("deleted: %+v, want %s", update, last)
	}
	b.sound()
}

func TestImportAfterACrashGoesOn(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	first := b.inside.Commit("c", "three\n")
	b.importIt()
	// As if the branch had been moved and the note of it not been written.
	must(t, saveImported(b.work, imported{Tip: b.work.Base, Branch: b.work.Base, Next: first, Index: b.work.Base}))
	second := b.inside.Commit("d", "four\n")
	if update := b.importIt(); update.Before != first || update.After != second {
		t.Errorf("got %+v, want %s to %s", update, first, second)
	}
}

func TestImportOfADirectWorkspace(t *testing.T) {
	t.Parallel()
	b := newDirectBox(t, newHost(t), "box")
	if update := b.importIt(); b.branch() != "" || update.After != "" {
		t.Errorf("a branch was made for nothing: %+v", update)
	}
	// What the host has already needs no branch.
	b.inside.Git("update-ref", "refs/heads/main", b.work.Base+"^")
	if update := b.importIt(); b.branch() != "" || update.After != "" {
		t.Errorf("a branch was made for the host's own commit: %+v", update)
	}
	b.inside.Git("update-ref", "refs/heads/main", b.work.Base)
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); b.branch() != tip || update.Before != "" || update.After != tip {
		t.Errorf("got %+v, want a branch at %s", update, tip)
	}
	if got := b.host.Git("rev-parse", "main"); got != b.work.Base {
		t.Errorf("the user's own branch was moved to %s", got)
	}
	b.sound()
}

// TestImportAfterTheUserSwitchedTheFolder: what is committed inside has files of the branch that
// only the host is on.
func TestImportAfterTheUserSwitchedTheFolder(t *testing.T) {
	t.Parallel()
	b := newDirectBox(t, newHost(t), "box")
	b.host.Git("switch", "-q", "-c", "other")
	b.host.Commit("theirs", "of other\n")
	tip := b.inside.Commit("c", "three\n")
	if _, err := Import(t.Context(), b.work, b.scratch); !errors.Is(err, forage.ErrRefused) || b.branch() != "" {
		t.Errorf("imported to %q: %v", b.branch(), err)
	}
	if status := b.unsaved(); !strings.Contains(status.Problem, "is on other on the host and on main inside") {
		t.Errorf("got %+v", status)
	}
	b.host.Git("switch", "-q", "main")
	if b.importIt(); b.branch() != tip {
		t.Errorf("switched back, it is at %q", b.branch())
	}
}

func TestImportIntoARepositoryWithoutACommit(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	b := newBox(t, host, "box")
	must(t, os.RemoveAll(b.path("objects")))
	for _, name := range []string{"main", b.work.Branch} {
		host.Git("update-ref", "-d", "refs/heads/"+name)
	}
	must(t, os.MkdirAll(b.path("objects/pack"), 0o755))
	must(t, os.Remove(b.path("packed-refs")))
	must(t, os.Remove(b.path("index")))
	b.work.Base = ""
	if update := b.importIt(); update.After != "" {
		t.Errorf("got %+v without a commit", update)
	}
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.Before != "" || update.After != tip || b.branch() != tip {
		t.Errorf("got %+v, want %s", update, tip)
	}
	b.sound()
}

func TestImportWaitsForLocksAndThenLeavesBothSidesIntact(t *testing.T) {
	t.Parallel() // it takes as long as a lock is waited for
	b := newBox(t, newHost(t), "box")
	tip := b.inside.Commit("c", "three\n")
	lock := filepath.Join(b.work.Repository.Store, "refs/heads", b.work.Branch+".lock")
	write(t, lock, "")
	ended := make(chan error)
	go func() {
		_, err := Import(t.Context(), b.work, b.scratch)
		ended <- err
	}()
	must(t, os.Remove(lock)) // before or while it is waited for
	if err := <-ended; err != nil || b.branch() != tip {
		t.Fatalf("a lock that is given up: %v, branch at %s", err, b.branch())
	}
	next := b.inside.Commit("d", "four\n")
	write(t, lock, "")
	_, err := Import(t.Context(), b.work, b.scratch)
	if !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" || b.branch() != tip {
		t.Fatalf("a lock that stays: %v (hint %q), branch at %s", err, forage.Hint(err), b.branch())
	}
	must(t, os.Remove(lock))
	index := filepath.Join(b.work.Repository.Store, "worktrees/box/index.lock")
	write(t, index, "")
	if _, err := Import(t.Context(), b.work, b.scratch); !errors.Is(err, forage.ErrRefused) || b.branch() != next {
		t.Errorf("a locked index: %v, branch at %s, want %s", err, b.branch(), next)
	}
	must(t, os.Remove(index))
	b.importIt()
	if got := b.outside.Git("status", "--porcelain"); got != "" {
		t.Errorf("git status on the host when the index is free again:\n%s", got)
	}
	b.sound()
}

func TestImportWaitsForAnotherImport(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	tip := b.inside.Commit("c", "three\n")
	unlock, err := lockImport(t.Context(), b.work)
	must(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Import(ctx, b.work, b.scratch)
		ended <- err
	}()
	tired := errors.New("tired of waiting")
	cancel(tired)
	if err := <-ended; !errors.Is(err, tired) || b.branch() != b.work.Base {
		t.Errorf("an import beside another one: %v, branch at %s", err, b.branch())
	}
	unlock()
	if update := b.importIt(); update.After != tip {
		t.Errorf("after the other: %+v", update)
	}
}

func TestImportOfADetachedHead(t *testing.T) {
	t.Parallel()
	b := newDirectBox(t, newHost(t), "box")
	b.work.Repository.Head = ""
	b.inside.Git("checkout", "-q", "--detach")
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.After != tip || b.branch() != tip {
		t.Errorf("got %+v, want %s", update, tip)
	}
}
