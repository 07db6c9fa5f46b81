package review

import (
	"os/exec"
	"strings"
	"testing"

	"forage"
	"forage/internal/testgit"
)

// A working copy without a description is what is not committed: it changes from one apply to the next.
func TestApplyAgainToABookmark(t *testing.T) {
	if _, err := exec.LookPath("jj"); err != nil {
		t.Skip("jj is not installed")
	}
	b := newBox(t, map[string]string{"a": "1\n"})
	jj := func(args ...string) string {
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
	if list := jj("bookmark", "list", "--all"); strings.Contains(list, "forage-apply") {
		t.Errorf("bookmarks: %s", list)
	}
}
