package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

// rev is the commit that a revision inside stands for.
func (b *box) rev(revision string) string {
	b.t.Helper()
	return b.inside.Git("rev-parse", revision+"^{commit}")
}

// switched makes a branch inside, from where it is or from a start, and a commit on it.
func (b *box) switched(name string, start ...string) string {
	b.t.Helper()
	b.inside.Git(append([]string{"switch", "-q", "-c", name}, start...)...)
	return b.inside.Commit(strings.ReplaceAll(name, "/", "-"), "on "+name+"\n")
}

// TestImportFollowsWhatIsCheckedOut: each step does something inside and names the revision inside
// that the host's branch is to be at then.
func TestImportFollowsWhatIsCheckedOut(t *testing.T) {
	t.Parallel()
	type step struct {
		what string
		do   func(b *box)
		want string
	}
	git := func(what, want string, args ...string) step {
		return step{what, func(b *box) { b.inside.Git(args...) }, want}
	}
	commit := func(what, file, want string) step {
		return step{what, func(b *box) { b.inside.Commit(file, what) }, want}
	}
	fails := func(what, want string, args ...string) step {
		return step{what, func(b *box) {
			if _, _, err := b.inside.Run(nil, args...); err == nil {
				b.t.Fatalf("git %s ended well", args)
			}
		}, want}
	}
	const own = "forage-box"
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"there and back", []step{
			{"a branch", func(b *box) { b.switched("fix/x") }, "fix/x"},
			git("amended", "fix/x", "commit", "-q", "--amend", "-m", "other words"),
			git("back", own, "switch", "-q", "-"),
			commit("work on both", "c", own),
			git("a branch that lacks what is on the sandbox's", own, "switch", "-q", "fix/x"),
			git("rebased", "fix/x", "rebase", "-q", own),
			git("a branch of it", "fix/x", "switch", "-q", "-c", "more"),
			git("merged", own, "branch", "-q", "-f", own, "fix/x"),
		}},
		{"detached", []step{
			git("at the same commit", own, "switch", "-q", "--detach"),
			commit("a commit", "c", "HEAD"),
			git("an older one", own, "switch", "-q", "--detach", own+"^"),
		}},
		{"orphan", []step{
			git("without a commit", own, "switch", "-q", "--orphan", "pages"),
			commit("with one", "c", own),
		}},
		{"a rebase that stops in the midst", []step{
			{"a commit of somebody's", func(b *box) { b.switched("up") }, "up"},
			{"two beside it", func(b *box) { b.switched("x", own); b.inside.Commit("y", "y") }, "x"},
			fails("stopped at the first", "x", "rebase", "-q", "--exec", "test -e y", "up"),
			git("given up", "x", "rebase", "--abort"),
			fails("stopped again", "x", "rebase", "-q", "--exec", "test -e y", "up"),
			git("ended", "x", "rebase", "--continue"),
		}},
		{"a rebase of a detached HEAD", []step{
			{"a commit of somebody's", func(b *box) { b.switched("up") }, "up"},
			git("at the first commit", own, "switch", "-q", "--detach", own),
			{"two commits", func(b *box) { b.inside.Commit("x", "x"); b.inside.Commit("y", "y") }, "HEAD"},
			fails("stopped at the first", "ORIG_HEAD", "rebase", "-q", "--exec", "test -e y", "up"),
			git("ended", "HEAD", "rebase", "--continue"),
		}},
		{"a bisection", []step{
			{"commits", func(b *box) {
				b.switched("x")
				for _, name := range []string{"one", "two", "three"} {
					b.inside.Commit(name, name)
				}
			}, "x"},
			git("in the midst of it", "x", "bisect", "start", "x", own),
			git("ended", "x", "bisect", "reset"),
		}},
		{"the sandbox's branch has another name", []step{
			commit("a commit", "c", own),
			git("renamed", "fix", "branch", "-q", "-m", "fix"),
			git("amended", "fix", "commit", "-q", "--amend", "-m", "other words"),
			{"a branch of that", func(b *box) { b.switched("more") }, "more"},
			git("back", "fix", "switch", "-q", "fix"),
			git("the name is there again", own, "switch", "-q", "-c", own),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, newHost(t), "box")
			for _, s := range test.steps {
				s.do(b)
				want := b.rev(s.want)
				if update := b.importIt(); b.branch() != want || update.After != want {
					t.Fatalf("%s: the branch is at %s (%+v), want %s, %s", s.what, b.branch(), update, s.want, want)
				}
				if again := b.importIt(); again.Before != want || again.After != want {
					t.Fatalf("%s: imported again: %+v", s.what, again)
				}
			}
			b.sound()
		})
	}
}

func TestImportFollowsInAFolderOfTheUsers(t *testing.T) {
	t.Parallel()
	b := newDirectBox(t, newHost(t), "box")
	b.host.Git("branch", "-q", "develop")
	b.inside.Git("switch", "-q", "-c", "fix")
	if update := b.importIt(); update.After != "" || b.branch() != "" {
		t.Errorf("a branch was made for nothing: %+v", update)
	}
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.After != tip || b.branch() != tip || b.host.Git("rev-parse", "main") != b.work.Base {
		t.Errorf("got %+v, want %s", update, tip)
	}
	b.inside.Git("symbolic-ref", "HEAD", "refs/heads/main")
	if b.importIt(); b.branch() != b.work.Base {
		t.Errorf("the branch is at %s, want %s", b.branch(), b.work.Base)
	}
	if diff := cmp.Diff(workspace.Status{Elsewhere: []string{"refs/heads/fix"}, Merge: "fix"}, b.unsaved()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	b.sound()
}

// TestImportOfABranchOfAnyName: a repository that has no commit gets its first branch from inside.
func TestImportOfABranchOfAnyName(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.work.Base = ""
	b.host.Git("update-ref", "-d", "refs/heads/"+b.work.Branch)
	b.inside.Git("switch", "-q", "--orphan", "first")
	b.inside.Git("branch", "-q", "-D", b.work.Branch)
	if update := b.importIt(); update.After != "" {
		t.Errorf("got %+v without a commit", update)
	}
	for _, args := range [][]string{{"commit", "-q", "--allow-empty", "-m", "one"}, {"commit", "-q", "--amend", "--allow-empty", "-m", "again"}} {
		b.inside.Git(args...)
		if want := b.rev("HEAD"); b.importIt().After != want || b.branch() != want {
			t.Errorf("%q: the branch is at %s, want %s", args, b.branch(), want)
		}
	}
	// Nothing is known to go on from it once it is gone.
	last := b.branch()
	b.inside.Git("switch", "-q", "--detach", "main")
	b.inside.Git("branch", "-q", "-D", "first")
	if b.importIt(); b.branch() != last {
		t.Errorf("the branch is at %s, want it left at %s", b.branch(), last)
	}
}

// TestUnsavedOnAnotherBranch: what the host's branch does not follow, or has left, is said to be
// inside alone.
func TestUnsavedOnAnotherBranch(t *testing.T) {
	t.Parallel()
	const own = "forage-box"
	for _, test := range []struct {
		name string
		do   func(b *box)
		want workspace.Status
	}{
		{"followed", func(b *box) { b.switched("x") }, workspace.Status{CommitsCount: 1}},
		{"left", func(b *box) {
			b.switched("x")
			b.importIt()
			b.inside.Git("switch", "-q", own)
		}, workspace.Status{Elsewhere: []string{"refs/heads/x"}, Merge: "x"}},
		{"left for one that a shell would run", func(b *box) {
			b.switched("x;$(y)")
			b.inside.Git("switch", "-q", own)
		}, workspace.Status{Elsewhere: []string{"refs/heads/x;$(y)"}}},
		// c is not in the folder, nor on the branch that is checked out on the host.
		{"beside the sandbox's", func(b *box) {
			b.inside.Commit("c", "c")
			b.switched("x", own+"^")
		}, workspace.Status{CommitsCount: 1, Elsewhere: []string{"refs/heads/x"}, Apart: "x", Merge: own, Uncommitted: []string{"x"}, UncommittedCount: 1}},
		{"an older commit, which the host has", func(b *box) {
			b.inside.Git("switch", "-q", "--detach", own+"^")
		}, workspace.Status{Apart: "OLD"}},
		{"a commit of its own", func(b *box) {
			b.inside.Git("switch", "-q", "--detach", own+"^")
			b.inside.Git("commit", "-q", "--allow-empty", "-m", "detached")
		}, workspace.Status{Elsewhere: []string{"HEAD"}, Apart: "HEAD", Merge: own, Uncommitted: []string{"b"}, UncommittedCount: 1}},
		{"in the midst of a rebase", func(b *box) {
			b.switched("up")
			b.switched("x", own)
			_, _, _ = b.inside.Run(nil, "rebase", "-q", "--exec", "false", "up")
		}, workspace.Status{CommitsCount: 1, Elsewhere: []string{"HEAD", "refs/heads/up"}, Merge: "up", Uncommitted: []string{"up"}, UncommittedCount: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, newHost(t), "box")
			test.do(b)
			b.importIt()
			got := b.unsaved()
			got.Commits = nil
			switch test.want.Apart {
			case "OLD":
				test.want.Apart = b.work.Base + "^"
				fallthrough
			case "HEAD":
				test.want.Apart = b.rev("HEAD")[:12]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			of := got.Apart
			if strings.HasSuffix(test.name, "rebase") {
				of = b.rev("HEAD")[:12]
			}
			if files, err := FilesOf(b.work); files != of || err != nil {
				t.Errorf("files are of %q (%v), want %q", files, err, of)
			}
			b.clean()
		})
	}
}

// TestImportBringsNothingOfWhatItDoesNotFollow: and it costs no process to know that again.
func TestImportBringsNothingOfWhatItDoesNotFollow(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	own := b.inside.Commit("c", "c")
	beside := b.switched("x", b.work.Base)
	if update := b.importIt(); update.After != own || b.has(beside) || b.has(beside+":x") {
		t.Errorf("got %+v, and the host has what is beside: %v", update, b.has(beside))
	}
	b.clean()
	b.inside.Git("commit", "-q", "--allow-empty", "-m", "more")
	if update := b.importIt(); update.After != own {
		t.Errorf("got %+v", update)
	}
	store := b.work.Repository.Store
	must(t, os.Rename(store, store+".moved"))
	if update := b.importIt(); update.After != own {
		t.Errorf("got %+v", update)
	}
	must(t, os.Rename(store+".moved", store))
	b.inside.Git("merge", "-q", "--no-edit", b.work.Branch)
	b.inside.Git("commit", "-q", "--allow-empty", "-m", "on top")
	if update, want := b.importIt(), b.rev("HEAD"); update.After != want {
		t.Errorf("merged: %+v, want %s", update, want)
	}
}

func TestImportLeavesABranchAloneThatTheUserMovedWhileAnotherIsCheckedOut(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.switched("x")
	b.importIt()
	b.outside.Git("commit", "-q", "--allow-empty", "-m", "the user's")
	theirs := b.branch()
	for _, branch := range []string{"x", b.work.Branch} {
		b.inside.Git("switch", "-q", branch)
		b.inside.Git("commit", "-q", "--allow-empty", "-m", "again")
		if b.importIt(); b.branch() != theirs {
			t.Errorf("on %s: the branch is at %s, want it left at %s", branch, b.branch(), theirs)
		}
		if status := b.unsaved(); !strings.Contains(status.Problem, "moved on the host") || status.Merge != "" {
			t.Errorf("on %s: %+v", branch, status)
		}
	}
}

// TestKeepOnAnotherBranch: of each branch with work there is a ref, whichever is checked out.
func TestKeepOnAnotherBranch(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(b *box){
		"followed":             func(*box) {},
		"left":                 func(b *box) { b.inside.Git("switch", "-q", b.work.Branch) },
		"beside the sandbox's": func(b *box) { b.switched("y", b.work.Base+"^") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, newHost(t), "box")
			own := b.inside.Commit("c", "c")
			tip := b.switched("x")
			b.importIt()
			do(b)
			b.importIt()
			write(t, filepath.Join(b.work.Path, "uncommitted"), "")
			work := []string{own, tip, b.rev("HEAD")}
			_, err := Keep(t.Context(), b.work, "box", b.scratch)
			must(t, err)
			b.host.Git("worktree", "remove", "-f", b.work.Path)
			b.host.Git("branch", "-q", "-D", b.work.Branch)
			for _, commit := range work {
				if got := b.host.Git("for-each-ref", "--contains="+commit, "--format=%(refname)"); got == "" {
					t.Errorf("no ref has %s; there are\n%s", commit, b.host.Git("for-each-ref"))
				}
			}
			if got := b.host.Git("log", "--all", "--format=%H", "--", "uncommitted"); got == "" {
				t.Error("no ref has what was not committed")
			}
		})
	}
}

// TestAttacksOnWhatIsCheckedOut: a HEAD that is none does not keep the sandbox's branch from being
// imported, or is said; the host's branch gets nothing else, and nothing is lost of what it has.
func TestAttacksOnWhatIsCheckedOut(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	for _, attack := range []struct {
		name  string
		head  string // what HEAD holds
		plant func(b *box)
		fails bool
		may   bool // fail: newer gits do
	}{
		{name: "a link", plant: func(b *box) { must(t, os.Symlink(filepath.Join(host.Dir, ".git/HEAD"), b.path("HEAD"))) }},
		{name: "a FIFO", plant: func(b *box) { must(t, unix.Mkfifo(b.path("HEAD"), 0o600)) }},
		{name: "a folder", plant: func(b *box) { must(t, os.Mkdir(b.path("HEAD"), 0o700)) }},
		{name: "gone", plant: func(*box) {}},
		{name: "huge", head: "ref: refs/heads/forage-huge\n" + strings.Repeat("\n", maxRef)},
		{name: "a name that leads out", head: "ref: refs/heads/../../../../etc/passwd\n"},
		{name: "names that name each other", head: "ref: refs/heads/a\n", plant: func(b *box) {
			write(t, b.path("refs/heads/a"), "ref: refs/heads/b\n")
			write(t, b.path("refs/heads/b"), "ref: refs/heads/a\n")
		}},
		{name: "a branch in a ref that is a link", head: "ref: refs/heads/link\n", plant: func(b *box) {
			must(t, os.Symlink(filepath.Join(host.Dir, ".git/refs/heads/main"), b.path("refs/heads/link")))
		}},
		{name: "a commit that is nowhere", head: strings.Repeat("12", 20) + "\n", fails: true},
		{name: "a file", head: "BLOB", fails: true},
		{name: "a commit without its parent", head: "ORPHANED", may: true},
		{name: "a commit with billions of files", head: "BILLIONS"},
		{name: "a rebase of the host's", head: "BASE", plant: func(b *box) { write(t, b.path("rebase-merge/head-name"), "../../../../etc/passwd\n") }},
		{name: "a rebase of what is nowhere", head: "BASE", plant: func(b *box) {
			write(t, b.path("rebase-merge/head-name"), "detached HEAD\n")
			write(t, b.path("rebase-merge/orig-head"), strings.Repeat("12", 20)+"\n")
		}, fails: true},
	} {
		t.Run(attack.name, func(t *testing.T) {
			b := newBox(t, host, strings.Map(plain, "head "+attack.name))
			own := b.inside.Commit("c", "three\n")
			head := attack.head
			switch head {
			case "BASE":
				head = b.work.Base + "\n"
			case "BLOB":
				head = b.inside.Git("rev-parse", "HEAD:c") + "\n"
			case "ORPHANED":
				head = b.loose("commit", strings.Replace(b.inside.Git("cat-file", "commit", own), b.work.Base, strings.Repeat("12", 20), 1)) + "\n"
			case "BILLIONS":
				head = b.commitOfBillions() + "\n"
				b.setBranch(own + "\n")
			}
			must(t, os.Remove(b.path("HEAD")))
			if head != "" {
				write(t, b.path("HEAD"), head)
			}
			if attack.plant != nil {
				attack.plant(b)
			}
			_, err := Import(t.Context(), b.work, b.scratch)
			attack.fails = attack.fails || attack.may && err != nil
			if t.Log(err); attack.fails != (err != nil) {
				t.Errorf("the import says %v", err)
			}
			if at := b.branch(); at != own && at != b.work.Base || !attack.fails && at != own {
				t.Errorf("the branch is at %s", at)
			}
			if status, err := Unsaved(t.Context(), b.work, b.scratch); err == nil && attack.fails && !status.Unsaved() {
				t.Errorf("nothing is unsaved: %+v", status)
			}
			b.clean()
		})
	}
	if out, messages, err := host.Run(nil, "fsck", "--full", "--strict", "--no-dangling"); err != nil {
		t.Errorf("the host's repository: %v\n%s%s", err, out, messages)
	}
}

// TestABrokenBranchLeavesWhatTheHostHas: the host's branch does not go back because a commit on
// another branch can't be had.
func TestABrokenBranchLeavesWhatTheHostHas(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	tip := b.switched("x")
	b.importIt()
	b.commitOfBillions() // on the sandbox's branch
	evil := b.rev(b.work.Branch)
	b.setBranch(b.work.Base + "\n")
	write(t, b.path("refs/heads/x"), evil+"\n")
	if _, err := Import(t.Context(), b.work, b.scratch); !errors.Is(err, forage.ErrRefused) || b.branch() != tip {
		t.Errorf("%v, and the branch is at %s, want %s", err, b.branch(), tip)
	}
}

// TestLeavingADetachedHeadLosesNothing: no ref inside has what was committed there, and the host's
// branch has left it.
func TestLeavingADetachedHeadLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Git("switch", "-q", "--detach")
	b.inside.Commit("c", "c")
	b.importIt()
	b.inside.Git("commit", "-q", "--amend", "-m", "other words")
	left := b.rev("HEAD")
	b.importIt()
	b.inside.Git("switch", "-q", b.work.Branch)
	b.inside.Git("reflog", "expire", "--expire=all", "--all")
	b.inside.Git("prune")
	b.importIt()
	want := workspace.Status{Elsewhere: []string{leftPrefix + left[:12]}, Merge: left[:12]}
	if diff := cmp.Diff(want, b.unsaved()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if refs, kept := b.keep(); len(refs) != 1 || refs["detached/"+left[:12]] != left {
		t.Errorf("kept are %+v, want %s", kept, left)
	}
	b.inside.Git("merge", "-q", left[:12])
	b.importIt()
	if status := b.unsaved(); status.CommitsCount != 1 || len(status.Elsewhere) != 0 {
		t.Errorf("merged, this is unsaved: %+v", status)
	}
}

// TestACommitOnADetachedHeadThatIsLeftAtOnce: no import has ever seen it.
func TestACommitOnADetachedHeadThatIsLeftAtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Git("switch", "-q", "--detach")
	left := b.inside.Commit("c", "c")
	b.inside.Git("switch", "-q", b.work.Branch)
	b.importIt()
	if diff := cmp.Diff([]string{leftPrefix + left[:12]}, b.unsaved().Elsewhere); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if refs, kept := b.keep(); len(refs) != 1 || refs["detached/"+left[:12]] != left {
		t.Errorf("kept are %+v, want %s", kept, left)
	}
}
