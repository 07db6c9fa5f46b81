package review

import (
	"os"
	"path/filepath"
	"testing"
)

// What was merged stays, whatever the agent begins anew from an older commit.
func TestApplyKeepsWhatWasMerged(t *testing.T) {
	t.Parallel()
	remove := func(b *box, name string) {
		if err := os.Remove(filepath.Join(b.work.Dir, name)); err != nil {
			b.t.Fatal(err)
		}
	}
	begin := func(b *box, branch string) { b.work.Git("checkout", "-q", "-B", branch, b.subject.Workspace.Base) }
	for name, test := range map[string]struct {
		again func(b *box)
		files string // of main afterwards
		note  string // its content
	}{
		"another branch of the old commit": {func(b *box) {
			begin(b, "forage-box")
			b.write(b.work.Dir, "task2", "2\n")
			b.commit("task2")
		}, "note\ntask1\ntask2", "1\n"},
		"reset, and one commit": {func(b *box) {
			b.user.Commit("another", "merged by another agent\n")
			b.work.Git("reset", "-q", "--hard", b.subject.Workspace.Base)
			b.write(b.work.Dir, "task2", "2\n")
			b.commit("task2")
		}, "another\nnote\ntask1\ntask2", "1\n"},
		"reset, and nothing committed": {func(b *box) {
			b.work.Git("reset", "-q", "--hard", b.subject.Workspace.Base)
			b.write(b.work.Dir, "task2", "2\n")
		}, "note\ntask1\ntask2", "1\n"},
		"removed in a later commit": {func(b *box) { // that is what the agent wants
			remove(b, "task1")
			b.commit("no task1")
		}, "note", "1\n"},
	} {
		for _, squashed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBox(t, map[string]string{"note": "0\n"})
				b.write(b.work.Dir, "task1", "1\n")
				b.write(b.work.Dir, "note", "1\n")
				b.commit("task1")
				b.mustApply(Options{})
				if squashed {
					b.user.Git("reset", "-q", "--soft", "HEAD~")
					b.user.Git("commit", "-q", "-m", "squashed")
				}
				test.again(b)
				b.mustApply(Options{})
				if files := b.user.Git("ls-tree", "-r", "--name-only", "main"); files != test.files {
					t.Errorf("files: %q, want %q", files, test.files)
				}
				if got := b.file("note"); got != test.note {
					t.Errorf("note is %q", got)
				}
				if status := b.user.Git("status", "--porcelain"); status != "" {
					t.Errorf("status: %q", status)
				}
			})
		}
	}
}

// What was not committed when it was applied, and is stashed since, is not taken back by the next commit.
func TestApplyKeepsWhatWasStashed(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "task1", "1\n")
	b.write(b.work.Dir, "a", "2\n")
	b.mustApply(Options{})
	b.work.Git("stash", "-q", "-u")
	b.write(b.work.Dir, "task2", "2\n")
	b.commit("task2")
	b.mustApply(Options{})
	if files := b.user.Git("ls-tree", "-r", "--name-only", "main"); files != "a\ntask1\ntask2" {
		t.Errorf("files: %q", files)
	}
	if got := b.file("a"); got != "2\n" {
		t.Errorf("a is %q", got)
	}
}

// Once all of it came by --paths, nothing is left for a merge.
func TestApplyAfterAllPaths(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.commit("work")
	b.write(b.work.Dir, "new", "n\n")
	b.mustApply(Options{Paths: []string{"a"}})
	b.mustApply(Options{Paths: []string{"new"}})
	at := b.user.Git("rev-parse", "main")
	if parents := b.user.Git("log", "-1", "--format=%P"); len(parents) != len(at) {
		t.Errorf("the parents are %q", parents)
	}
	if done := b.mustApply(Options{}); done.Changes() {
		t.Errorf("done: %+v", done)
	}
	if now := b.user.Git("rev-parse", "main"); now != at {
		t.Errorf("main moved to %s", now)
	}
	if s := b.open(); len(s.Changes)+s.CommitsCount > 0 {
		t.Errorf("there is still something to review: %+v", s.Review)
	}
}
