package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
)

// plantNested makes a repository below the working folder whose configuration has git run
// something, and returns the file that is there once it has. A commit in it is what a gitlink
// needs.
func (b *box) plantNested(name string) (ran string) {
	b.t.Helper()
	ran = filepath.Join(b.t.TempDir(), "ran")
	nested := filepath.Join(b.work.Path, name)
	must(b.t, os.MkdirAll(nested, 0o755))
	b.outside.Git("init", "-q", nested)
	write(b.t, filepath.Join(nested, "file"), "nested\n")
	b.outside.Git("-C", nested, "add", "file")
	b.outside.Git("-C", nested, "commit", "-q", "-m", "nested")
	script := filepath.Join(nested, "monitor")
	must(b.t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
	for _, key := range []string{"core.fsmonitor", "diff.external", "core.pager", "core.editor", "core.sshCommand", "alias.status"} {
		b.outside.Git("-C", nested, "config", key, script)
	}
	write(b.t, filepath.Join(nested, "file"), "changed\n")
	return ran
}

// everyday is what a user does in the working folder on the host.
var everyday = [][]string{
	{"status"}, {"status", "--porcelain=v2", "--branch"}, {"diff"}, {"diff", "HEAD"}, {"diff", "--submodule=diff"},
	{"add", "-u"}, {"commit", "-q", "-a", "-m", "the user's"}, {"status"}, {"add", "-A"}, {"stash"}, {"status"},
	{"checkout", "-q", "HEAD", "--", "a"}, {"log", "-p", "-1"}, {"describe", "--always", "--dirty"},
}

func TestPlainGitInTheFolderRunsNothingOfACommittedNestedRepository(t *testing.T) {
	t.Parallel()
	for _, sparse := range []bool{false, true} {
		b := newBox(t, newHost(t), "box")
		if sparse {
			b.host.Git("config", "core.sparseCheckout", "true")
			b.host.Git("config", "core.sparseCheckoutCone", "false")
			write(t, filepath.Join(b.work.Repository.Store, "worktrees/box/info/sparse-checkout"), "/*\n")
		}
		ran := b.plantNested("vendor")
		// As the agent would, by hand: without .gitmodules.
		head := b.outside.Git("-C", filepath.Join(b.work.Path, "vendor"), "rev-parse", "HEAD")
		b.inside.Git("update-index", "--add", "--cacheinfo", "160000,"+head+",vendor")
		b.inside.Git("commit", "-q", "-m", "a gitlink")
		_ = os.Remove(ran)
		tip := b.importIt().After
		if b.branch() != tip || tip == b.work.Base {
			t.Fatalf("the gitlink was not imported: %s", b.branch())
		}
		_ = b.unsaved()
		if _, err := os.Stat(ran); err == nil {
			t.Fatal("Forage itself ran something of the nested repository")
		}
		write(t, filepath.Join(b.work.Path, "a"), "the user's change\n")
		for _, args := range everyday {
			if _, messages, err := b.outside.Run(nil, args...); err != nil {
				t.Logf("git %q: %v %s", args, err, messages)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Fatalf("sparse %v: git %q on the host ran what the nested repository's configuration says", sparse, args)
			}
		}
	}
}

func TestPlainGitBitesWithoutTheMark(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	ran := b.plantNested("vendor")
	head := b.outside.Git("-C", filepath.Join(b.work.Path, "vendor"), "rev-parse", "HEAD")
	b.outside.Git("update-index", "--add", "--cacheinfo", "160000,"+head+",vendor")
	_ = os.Remove(ran)
	b.outside.Git("status")
	if _, err := os.Stat(ran); err != nil {
		t.Error("git status looks into no nested repository here: the test above proves nothing")
	}
}

func TestPlainGitAndANestedRepositoryThatNobodyCommitted(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Commit("c", "three\n")
	ran := b.plantNested("vendor")
	_ = os.Remove(ran)
	b.importIt()
	if status := b.unsaved(); status.UncommittedCount != 1 {
		t.Errorf("got %+v, want the nested repository", status)
	}
	write(t, filepath.Join(b.work.Path, "a"), "the user's change\n")
	// Once the user has added it, git looks into it: nothing of ours stands between the two then.
	add := slices.IndexFunc(everyday, func(args []string) bool { return slices.Contains(args, "-A") })
	for _, args := range everyday[:add+1] {
		b.outside.Run(nil, args...)
		if _, err := os.Stat(ran); err == nil {
			t.Fatalf("git %q on the host ran what the nested repository's configuration says", args)
		}
	}
}

func TestTheIndexKeepsTheTimesOfFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.outside.Git("status")
	b.inside.Commit("c", "three\n")
	b.importIt()
	// Only what the index knows the times of is passed over without being read.
	out := b.outside.Git("ls-files", "--debug", "a")
	if !hasTimes(out) {
		t.Errorf("the index has forgotten a file's times:\n%s", out)
	}
}

// TestALockedIndexIsWaitedForAndNotWorkedFor: in a big repository each try would take long, and a
// git that was killed leaves its lock.
func TestALockedIndexIsWaitedForAndNotWorkedFor(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	r, err := Open(t.Context(), b.host.Dir)
	must(t, err)
	s, err := r.Shadow(b.scratch)
	must(t, err)
	defer s.Close()
	write(t, r.IndexOf(t.Context(), b.work.Path)+".lock", "")
	err = s.bringIndexTo(t.Context(), b.work.Path, b.work.Base)
	if !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), "index.lock") {
		t.Errorf("it is locked: %v (%s)", err, forage.Hint(err))
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "settle.index")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another index was made: %v", err)
	}
}

func hasTimes(debug string) bool {
	for _, line := range lines(debug) {
		if line == "  mtime: 0:0" {
			return false
		}
	}
	return true
}

// In every format of the index a gitlink is met.
func TestGitlinksOfAnyIndex(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r, err := Open(t.Context(), h.Dir)
	must(t, err)
	index := filepath.Join(r.GitDir, "index")
	look := func() []string {
		links, err := r.Gitlinks(t.Context(), index, t.TempDir())
		must(t, err)
		return links
	}
	if links := look(); len(links) > 0 {
		t.Fatalf("submodules out of nothing: %q", links)
	}
	h.Git("update-index", "--add", "--cacheinfo", "160000,"+h.Git("rev-parse", "HEAD")+",some/vendor")
	for _, version := range []string{"2", "3", "4"} {
		h.Git("update-index", "--index-version", version)
		if links := look(); !slices.Equal(links, []string{"some/vendor"}) {
			t.Errorf("version %s: %q", version, links)
		}
	}
}
