package review

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/testgit"
	"forage/internal/workspace/gitrepo"
)

// newJJBox is a box of a jj repository that git has, too, and what runs the user's jj there.
func newJJBox(t *testing.T) (b *box, jj func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("jj"); err != nil {
		t.Skip("jj is not installed")
	}
	b = newBox(t, map[string]string{"a": "1\n"})
	jj = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("jj", args...)
		cmd.Dir, cmd.Env = b.user.Dir, append(testgit.Environ(t.TempDir()), "JJ_USER=U", "JJ_EMAIL=u@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("jj %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	jj("git", "init", "--colocate")
	w := &b.subject.Workspace
	w.Mode, w.Repository.Kind = forage.WorkspaceJJ, forage.RepositoryJJ
	b.user.Git("symbolic-ref", gitrepo.TipRef(*w), "refs/heads/"+w.Branch)
	return b, jj
}

// A working copy without a description is what is not committed: it changes from one apply to the next.
func TestApplyAgainToABookmark(t *testing.T) {
	t.Parallel()
	b, jj := newJJBox(t)
	b.write(b.work.Dir, "new", "1\n")
	b.mustApply(Options{})
	if s := b.open(); len(s.Changes) != 0 {
		t.Errorf("there is still something to review: %+v", s.Changes)
	}
	for _, next := range []string{"1\n2\n", "1\n2\n3\n"} {
		b.write(b.work.Dir, "new", next)
		b.mustApply(Options{})
	}
	b.write(b.work.Dir, "new", "1\n2\n3\n4\n")
	b.commit("described")
	before := jj("op", "log", "--ignore-working-copy", "--no-graph", "--template", "id")
	b.mustApply(Options{DryRun: true})
	if after := jj("op", "log", "--ignore-working-copy", "--no-graph", "--template", "id"); after != before {
		t.Error("a rehearsal was an operation")
	}
	b.mustApply(Options{})
	if got := jj("file", "show", "-r", "main", "new"); got != "1\n2\n3\n4" {
		t.Errorf("new is %q", got)
	}
	if at, tip := b.user.Git("rev-parse", "main"), jj("log", "--no-graph", "-r", "main", "-T", "commit_id"); at != tip {
		t.Errorf("git has main at %s, jj at %s", at, tip)
	}
	jj("undo")
	if got := jj("file", "show", "-r", "main", "new"); got != "1\n2\n3" {
		t.Errorf("taken back, new is %q", got)
	}
}

// The bookmark at which the work began is found, too, where the user went on with it before the first apply.
func TestApplyToABookmarkThatWentOn(t *testing.T) {
	t.Parallel()
	b, jj := newJJBox(t)
	b.write(b.work.Dir, "new", "1\n")
	b.commit("work")
	jj("new", "main", "-m", "mine")
	b.write(b.user.Dir, "other", "1\n")
	jj("bookmark", "set", "main", "-r", "@")
	if done := b.mustApply(Options{}); done.Branch != "main" || !done.Merged {
		t.Errorf("it went to %q, merged: %v", done.Branch, done.Merged)
	}
	if list := jj("file", "list", "-r", "main"); list != "a\nnew\nother" {
		t.Errorf("main has %q", list)
	}
}

// Killed after the bookmark has moved, apply finds it all the same, though it stands no longer where the work began. One that can't be
// moved is not gone on with.
func TestApplyAgainToABookmarkAfterAKill(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(b *box, jj func(...string) string, tip string){
		"jj has moved it":        func(_ *box, jj func(...string) string, tip string) { jj("bookmark", "set", "main", "-r", tip) },
		"git alone has moved it": func(b *box, _ func(...string) string, tip string) { b.user.Git("update-ref", "refs/heads/main", tip) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedAtABookmark(t, move)
		})
	}
}

func killedAtABookmark(t *testing.T, move func(b *box, jj func(...string) string, tip string)) {
	b, jj := newJJBox(t)
	b.write(b.work.Dir, "new", "1\n")
	tip := b.commit("work")
	lock := filepath.Join(b.user.Dir, ".git/refs/heads", "main.lock")
	b.write(filepath.Dir(lock), filepath.Base(lock), "")
	if _, err := b.apply(Options{}); err == nil {
		t.Fatal("a locked bookmark was made")
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	s := b.open()
	if s.state.bookmark() != "" {
		t.Errorf("the bookmark %s, which has got nothing, is gone on with", s.state.bookmark())
	}
	i := installation{target: &target{}, subject: b.subject, journal: journal{
		Branch: "main", From: b.subject.Workspace.Base, To: tip, Mark: mark{Branch: "main", Work: tip, Tip: tip, After: tip},
	}}
	if err := i.write(); err != nil {
		t.Fatal(err)
	}
	move(b, jj, tip)
	if done := b.mustApply(Options{}); done.Changes() {
		t.Errorf("it was applied again: %+v", done)
	}
	b.write(b.work.Dir, "new", "1\n2\n")
	tip = b.commit("more")
	b.mustApply(Options{})
	if at := jj("log", "--no-graph", "-r", "main", "-T", "commit_id"); at != tip {
		t.Errorf("main is at %s, not at %s", at, tip)
	}
}
