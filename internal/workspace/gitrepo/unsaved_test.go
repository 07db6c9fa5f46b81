package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace"
)

func TestUnsaved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(t *testing.T, b *box)
		want func(b *box) workspace.Status
	}{
		{"nothing", func(*testing.T, *box) {}, func(*box) workspace.Status { return workspace.Status{} }},
		{"an ignored file", func(t *testing.T, b *box) {
			write(t, filepath.Join(b.work.Repository.Store, "info/exclude"), "*.o\n")
			write(t, filepath.Join(b.work.Path, "x.o"), "")
		}, func(*box) workspace.Status { return workspace.Status{} }},
		{"uncommitted files", func(t *testing.T, b *box) {
			write(t, filepath.Join(b.work.Path, "a"), "changed")
			write(t, filepath.Join(b.work.Path, "sub/new\nline"), "")
			must(t, os.Remove(filepath.Join(b.work.Path, "b")))
		}, func(*box) workspace.Status {
			return workspace.Status{Uncommitted: []string{"a", "b", "sub/new\nline"}, UncommittedCount: 3}
		}},
		{"uncommitted files that the user has", func(t *testing.T, b *box) {
			write(t, filepath.Join(b.work.Path, "a"), "changed")
			write(t, filepath.Join(b.work.Path, "later"), "same")
			must(t, os.Remove(filepath.Join(b.work.Path, "b")))
			b.take("a", "changed", "later", "same", "b", "")
			write(t, filepath.Join(b.work.Path, "later"), "changed since")
		}, func(*box) workspace.Status {
			return workspace.Status{Uncommitted: []string{"later"}, UncommittedCount: 1}
		}},
		{"uncommitted files that the user had", func(t *testing.T, b *box) {
			write(t, filepath.Join(b.work.Path, "a"), "changed")
			b.take("a", "changed")
			b.host.Git("reset", "-q", "--hard", b.work.Base)
		}, func(*box) workspace.Status {
			return workspace.Status{Uncommitted: []string{"a"}, UncommittedCount: 1}
		}},
		{"a file that is only touched", func(t *testing.T, b *box) {
			write(t, filepath.Join(b.work.Path, "a"), "one\n")
		}, func(*box) workspace.Status { return workspace.Status{} }},
		{"commits", func(t *testing.T, b *box) {
			b.inside.Commit("c", "three\n")
			b.importIt()
		}, func(b *box) workspace.Status {
			return workspace.Status{Commits: []workspace.Commit{{ID: b.inside.Git("rev-parse", "HEAD"), Subject: "change c"}}, CommitsCount: 1}
		}},
		{"commits that are on another branch of the host", func(t *testing.T, b *box) {
			b.inside.Commit("c", "three\n")
			b.host.Git("merge", "-q", b.importIt().After)
		}, func(*box) workspace.Status { return workspace.Status{} }},
		{"commits that are in a recovery ref alone", func(t *testing.T, b *box) {
			b.inside.Commit("c", "three\n")
			b.host.Git("update-ref", RecoveryRefs+"other/2026-01-02T030405Z/work", b.importIt().After)
		}, func(b *box) workspace.Status {
			return workspace.Status{Commits: []workspace.Commit{{ID: b.inside.Git("rev-parse", "HEAD"), Subject: "change c"}}, CommitsCount: 1}
		}},
		{"commits that were not imported", func(t *testing.T, b *box) {
			b.inside.Commit("c", "three\n")
		}, func(b *box) workspace.Status {
			return workspace.Status{Elsewhere: []string{"refs/heads/" + b.work.Branch}, Uncommitted: []string{"c"}, UncommittedCount: 1}
		}},
		{"work elsewhere", func(t *testing.T, b *box) {
			b.inside.Git("tag", "same", b.work.Base)
			b.inside.Git("branch", "same")
			write(t, filepath.Join(b.work.Path, "a"), "stashed")
			b.inside.Git("stash", "-q")
			b.inside.Git("tag", "-a", "-m", "words", "annotated", b.work.Base)
			b.inside.Git("checkout", "-q", "-b", "feature")
			b.inside.Commit("c", "three\n")
			b.inside.Git("checkout", "-q", "--detach", b.work.Base)
			b.inside.Commit("d", "four\n")
			b.inside.Git("update-ref", "refs/remotes/origin/main", "HEAD")
			b.inside.Git("worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "w"))
			b.inside.Git("checkout", "-q", b.work.Branch)
		}, func(*box) workspace.Status {
			return workspace.Status{Elsewhere: []string{"refs/heads/feature", "refs/stash", "refs/tags/annotated", "worktrees/w/HEAD"}, Merge: "feature"}
		}},
		{"a branch that the user rewrote on the host since", func(t *testing.T, b *box) {
			// As CreatePrivate leaves it.
			text, err := os.ReadFile(b.path("packed-refs"))
			must(t, err)
			must(t, os.WriteFile(b.work.Repository.Dir+refsSuffix, text, 0o600))
			b.host.Git("commit", "-q", "--amend", "--allow-empty", "-m", "other words")
			b.host.Git("update-ref", "refs/heads/"+b.work.Branch, "main")
			b.host.Git("branch", "-q", "keep", b.work.Base+"^")
			b.inside.Git("branch", "work", b.work.Base+"^")
		}, func(*box) workspace.Status { return workspace.Status{} }},
		{"what was imported and then amended, on a branch inside", func(t *testing.T, b *box) {
			b.inside.Commit("c", "three\n")
			b.importIt()
			b.inside.Git("branch", "backup")
			b.inside.Git("reset", "-q", "--hard", b.work.Base)
			b.importIt()
		}, func(*box) workspace.Status {
			return workspace.Status{Elsewhere: []string{"refs/heads/backup"}, Merge: "backup"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t, newHost(t), "box")
			test.do(t, b)
			for range 2 { // with and without what was kept for the next time
				if diff := cmp.Diff(test.want(b), b.unsaved()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			b.sound()
		})
	}
}

// take commits files in the user's repository, as apply does; "" removes one.
func (b *box) take(files ...string) {
	b.t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(b.host.Dir, files[i])
		if files[i+1] == "" {
			must(b.t, os.Remove(path))
		} else {
			write(b.t, path, files[i+1])
		}
	}
	b.host.Git("add", "-A")
	b.host.Git("commit", "-q", "-m", "taken over")
	must(b.t, NoteTaken(b.work, b.host.Git("rev-parse", "HEAD"), ""))
}

// Where the host's repository has no branch a whole history is work: of what is beyond the list
// there is the number.
func TestManyCommits(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	r, err := Open(t.Context(), host.Dir)
	must(t, err)
	s, err := r.Shadow(t.TempDir())
	must(t, err)
	defer s.Close()
	base := host.Git("rev-parse", "HEAD")
	for made := 1; made <= workspace.MaxListed+2; made++ {
		host.Git("commit", "-q", "--allow-empty", "-m", fmt.Sprintf("%d %s", made, strings.Repeat("long ", 200)))
		if made < workspace.MaxListed {
			continue
		}
		list, count, err := s.Commits(t.Context(), []string{"main", "--not", base})
		if err != nil || count != made || len(list) != workspace.MaxListed {
			t.Fatalf("%d of %d commits, want %d of %d, %v", len(list), count, workspace.MaxListed, made, err)
		}
		if first := list[0]; first.ID != host.Git("rev-parse", "HEAD") || !strings.HasPrefix(first.Subject, fmt.Sprint(made, " long ")) || len(first.Subject) > 300 {
			t.Errorf("the newest is %+v", first)
		}
	}
}

func TestUnsavedOfTheUsersOwnFolder(t *testing.T) {
	t.Parallel()
	b := newDirectBox(t, newHost(t), "box")
	write(t, filepath.Join(b.work.Path, "new"), "")
	if diff := cmp.Diff(workspace.Status{}, b.unsaved()); diff != "" {
		t.Errorf("the user's own file (-want +got):\n%s", diff)
	}
	b.inside.Commit("c", "three\n")
	b.importIt()
	if status := b.unsaved(); status.CommitsCount != 1 {
		t.Errorf("got %+v, want one commit", status)
	}
}

func TestUnsavedWithoutTheHostsRepository(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	must(t, os.Rename(b.work.Repository.Store, b.work.Repository.Store+".moved"))
	if status := b.unsaved(); !status.Unsaved() || !strings.Contains(status.Problem, "is gone") {
		t.Errorf("a repository that was moved: %+v", status)
	}
}
