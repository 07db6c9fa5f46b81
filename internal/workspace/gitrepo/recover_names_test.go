package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeptName(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef01234567"
	for _, tc := range []struct{ ref, want string }{
		{"refs/heads/feature/login-2.x", "heads/feature/login-2.x"},
		{"refs/tags/v1", "tags/v1"},
		{"HEAD", "HEAD"},
		{"refs/heads/x;touch${IFS}/tmp/y;$(id)", "heads-x-touch--IFS--tmp-y---id--0123456789ab"},
		{"refs/heads/x'\"`&|<>y", "heads-x-------y-0123456789ab"},
		{"refs/heads/Ünï\u009b31m", "heads--n--31m-0123456789ab"},
		{"refs/heads/a", "heads/a"},
		{"refs/work", "work-0123456789ab"},
		{"refs/work/x", "work-x-0123456789ab"},
		{"refs/heads/" + strings.Repeat("l", 300), "heads-" + strings.Repeat("l", 194) + "-0123456789ab"},
	} {
		if got := keptName(tc.ref, id); got != tc.want {
			t.Errorf("%s is kept as %s, want %s", tc.ref, got, tc.want)
		}
	}
}

// What refs inside are called neither keeps the work from being kept nor says anything to a shell.
func TestKeepOfOddNames(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	commit := func(message string) string {
		return b.inside.Git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", message)
	}
	odd, long, work, stash := commit("1"), commit("2"), commit("3"), commit("4")
	b.inside.Git("update-ref", "refs/heads/$(id);x", odd)
	b.inside.Git("update-ref", "refs/work/x", work)
	b.inside.Git("update-ref", "refs/stash-1", stash)
	for _, text := range []string{"first", "second"} {
		write(t, filepath.Join(b.work.Path, "a"), text)
		b.inside.Git("stash", "-q")
	}
	packed := long + " refs/heads/" + strings.Repeat("l", 300) + "\n"
	before, err := os.ReadFile(b.path("packed-refs"))
	must(t, err)
	write(t, b.path("packed-refs"), string(before)+packed)
	write(t, filepath.Join(b.work.Path, "new"), "new\n")
	refs, _ := b.keep()
	if refs["work"] == "" || refs["stash-1-"] == "" || refs["stash"] == "" {
		t.Errorf("kept are %v", refs)
	}
	for _, name := range []string{"work", "stash-1-", "stash"} {
		delete(refs, name)
	}
	want := map[string]string{
		"heads---id--x-" + odd[:12]:                           odd,
		"heads-" + strings.Repeat("l", 194) + "-" + long[:12]: long,
		"work-x-" + work[:12]:                                 work,
		"stash-1":                                             stash,
	}
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	b.sound()
}
