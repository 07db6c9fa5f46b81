package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"forage/internal/testgit"
)

// Where a branch is is read without git wherever that is possible, and the answer is git's.
func TestBranchIsWhatGitSays(t *testing.T) {
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
	must(t, os.WriteFile(filepath.Join(host.Dir, ".git/refs/heads/broken"), []byte("no commit\n"), 0o644))
	r, err := Open(t.Context(), host.Dir)
	must(t, err)
	s, err := r.Shadow(t.TempDir())
	must(t, err)
	defer s.Close()
	tag := host.Git("rev-parse", "refs/tags/tag")
	for _, test := range []struct {
		ref, want string
		read      bool // without git
	}{
		{"refs/heads/packed", first, true},
		{"refs/heads/pack", "", true},
		{"refs/heads/moved", second, true},
		{"refs/heads/deleted", "", true},
		{"refs/heads/folder/loose", second, true},
		{"refs/heads/folder", "", false},
		{"refs/heads/moved/below", "", false},
		{"refs/heads/symbolic", first, false},
		{"refs/heads/broken", "", false},
		{"refs/tags/tag", tag, true},
	} {
		if got, err := s.Branch(t.Context(), test.ref); err != nil || got != test.want {
			t.Errorf("%s is at %q, want %q (%v)", test.ref, got, test.want, err)
		}
		if _, read := r.readRef(test.ref); read != test.read {
			t.Errorf("%s: read without git: %t, want %t", test.ref, read, test.read)
		}
	}
}

// A commit is safe at a branch, tag or remote other than the one that goes, and at nothing of Forage's, of jj's or of the stash.
func TestPublished(t *testing.T) {
	const commit = "1111111111111111111111111111111111111111"
	for ref, want := range map[string]bool{
		"refs/heads/main": true, "refs/tags/v1": true, "refs/remotes/origin/main": true, "refs/heads/forage-other": true,
		"refs/heads/forage-box": false, "refs/stash": false, "refs/jj/keep/x": false, "refs/forage/recovery/x": false,
	} {
		refs := Refs{Values: map[string]string{ref: commit, "refs/heads/elsewhere": commit[1:] + "2"}}
		if got := refs.published(commit, "refs/heads/forage-box"); got != want {
			t.Errorf("at %s: %t, want %t", ref, got, want)
		}
	}
}
