package gitrepo

import (
	"testing"

	"forage/internal/testgit"
)

// Where a branch is is read without git, and the answer is git's.
func TestBranchIsWhatGitSays(t *testing.T) {
	t.Parallel()
	host := testgit.Init(t, t.TempDir())
	first, second := host.Commit("a", "one\n"), host.Commit("a", "two\n")
	host.Git("update-ref", "refs/heads/packed", first)
	host.Git("update-ref", "refs/heads/moved", first)
	host.Git("update-ref", "refs/heads/deleted", first)
	host.Git("tag", "-a", "-m", "annotated", "tag", first)
	host.Git("pack-refs", "--all")
	host.Git("update-ref", "refs/heads/moved", second)
	host.Git("update-ref", "-d", "refs/heads/deleted")
	host.Git("update-ref", "refs/heads/folder/loose", second)
	host.Git("symbolic-ref", "refs/heads/symbolic", "refs/heads/packed")
	r, err := Open(t.Context(), host.Dir)
	must(t, err)
	s, err := r.Shadow(t.TempDir())
	must(t, err)
	defer s.Close()
	tag := host.Git("rev-parse", "refs/tags/tag")
	for _, test := range []struct {
		ref, want string
	}{
		{"refs/heads/packed", first},
		{"refs/heads/pack", ""},
		{"refs/heads/moved", second},
		{"refs/heads/deleted", ""},
		{"refs/heads/folder/loose", second},
		{"refs/heads/folder", ""},
		{"refs/heads/moved/below", ""},
		{"refs/heads/symbolic", first},
		{"refs/tags/tag", tag},
	} {
		if got, err := s.Branch(t.Context(), test.ref); err != nil || got != test.want {
			t.Errorf("%s is at %q, want %q (%v)", test.ref, got, test.want, err)
		}
	}
}
