package review

import (
	"os"
	"path/filepath"
	"testing"

	"forage/internal/workspace/gitrepo"
)

// After an apply the agent goes on, and what it does next comes without a conflict, as long as the user did nothing to the same lines.
func TestApplyAgain(t *testing.T) {
	t.Parallel()
	commit := func(b *box) { b.commit("more") }
	twice := func(b *box) {
		b.write(b.work.Dir, "a", "A\n2\n3\n")
		b.work.Git("commit", "-q", "-a", "-m", "only a")
	}
	nothing := func(b *box) {}
	for name, test := range map[string]struct {
		first, next, user func(b *box)
		paths             []string
		content           map[string]string // beside new and gone; "" is absent
	}{
		"not committed, still not committed": {nothing, nothing, nothing, nil, nil},
		"not committed, then committed":      {nothing, commit, nothing, nil, nil},
		"some of it committed":               {nothing, twice, nothing, nil, map[string]string{"a": "A\n2\n3\n"}},
		"the user goes on":                   {nothing, commit, func(b *box) { b.user.Commit("z", "user's\n") }, nil, map[string]string{"z": "user's\n"}},
		"the user changes other lines": {nothing, commit, func(b *box) { b.user.Commit("new", "USER\n1\n2\n3\n4\n5\n6\n") }, nil,
			map[string]string{"new": "USER\n1\n2\n3\n4\n5\n6\nnext\n"}},
		"the user rewords":  {nothing, commit, func(b *box) { b.user.Git("commit", "-q", "--amend", "-m", "better") }, nil, nil},
		"the user squashes": {nothing, commit, func(b *box) { b.user.Git("reset", "-q", "--soft", "HEAD~"); b.user.Commit("z", "z\n") }, nil, nil},
		"the user rebases": {nothing, commit, func(b *box) {
			b.user.Git("checkout", "-q", "-b", "side", "HEAD~")
			b.user.Commit("z", "z\n")
			b.user.Git("checkout", "-q", "main")
			b.user.Git("rebase", "-q", "side")
		}, nil, map[string]string{"z": "z\n"}},
		"the user takes it back":           {nothing, commit, func(b *box) { b.user.Git("reset", "-q", "--hard", "HEAD~") }, nil, nil},
		"some paths":                       {nothing, commit, nothing, []string{"new", "gone"}, nil},
		"the user goes on, and some paths": {nothing, commit, func(b *box) { b.user.Commit("z", "z\n") }, []string{"new", "gone"}, map[string]string{"z": "z\n"}},
		"the agent merges the user's": {nothing, func(b *box) {
			b.work.Git("add", "-A")
			b.work.Git("commit", "-q", "-m", "more")
			b.work.Git("merge", "-q", "-X", "ours", "--no-edit", "main")
		}, func(b *box) { b.user.Commit("z", "z\n") }, nil, map[string]string{"z": "z\n"}},
	} {
		for _, into := range []string{"", "feature"} {
			if into != "" && name[:8] == "the user" {
				continue
			}
			t.Run(name+into, func(t *testing.T) {
				t.Parallel()
				b := newBox(t, map[string]string{"a": "1\n2\n3\n", "gone": "g\n"})
				b.user.Git("branch", "feature")
				b.write(b.work.Dir, "new", "0\n1\n2\n3\n4\n5\n6\n")
				if err := os.Remove(filepath.Join(b.work.Dir, "gone")); err != nil {
					t.Fatal(err)
				}
				test.first(b)
				b.mustApply(Options{Into: into, Paths: test.paths})
				b.write(b.work.Dir, "new", "0\n1\n2\n3\n4\n5\n6\nnext\n")
				test.user(b)
				test.next(b)
				for range 2 { // the second time there is nothing to do
					b.mustApply(Options{Into: into, Paths: test.paths})
				}
				branch := "main"
				if into != "" {
					branch = into
				}
				want := map[string]string{"new": "0\n1\n2\n3\n4\n5\n6\nnext\n", "gone": ""}
				for name, content := range test.content {
					want[name] = content
				}
				for name, content := range want {
					got, _, err := b.user.Run(nil, "cat-file", "blob", branch+":"+name)
					if err != nil {
						got = nil
					}
					if string(got) != content {
						t.Errorf("%s is %q, want %q", name, got, content)
					}
				}
				if status := b.user.Git("status", "--porcelain"); status != "" {
					t.Errorf("status: %q", status)
				}
				if s := b.open(); into == "" && len(s.Changes)+s.CommitsCount > 0 && test.paths == nil {
					t.Errorf("there is still something to review: %+v", s.Review)
				}
				b.user.Git("fsck", "--strict")
			})
		}
	}
}

// What the user did after an apply stays, or is in conflict, which is said. It is never undone.
func TestApplyAgainLeavesWhatTheUserDid(t *testing.T) {
	t.Parallel()
	revert := func(b *box) { b.user.Git("revert", "--no-edit", "HEAD") }
	for name, test := range map[string]struct {
		user, agent func(b *box)
		conflicts   bool
		files       string // of main afterwards
	}{
		"reverted, and the agent goes on elsewhere": {
			revert, func(b *box) { b.write(b.work.Dir, "other", "o\n") }, false, "a\nother",
		},
		"reverted, and the agent goes on there": {
			revert, func(b *box) { b.write(b.work.Dir, "new", "2\n") }, true, "a",
		},
		"reverted, and the agent commits": {
			revert, func(b *box) { b.commit("the same") }, false, "a",
		},
		"deleted": {
			func(b *box) { b.user.Git("rm", "-q", "new"); b.user.Git("commit", "-q", "-m", "no") },
			func(b *box) { b.write(b.work.Dir, "other", "o\n"); b.commit("more") }, false, "a\nother",
		},
		"the same line": {
			func(b *box) { b.user.Commit("new", "the user's\n") },
			func(b *box) { b.write(b.work.Dir, "new", "the agent's\n"); b.commit("more") }, true, "a\nnew",
		},
		"amended away": {
			func(b *box) {
				b.user.Git("rm", "-q", "new")
				b.user.Git("commit", "-q", "--amend", "--allow-empty", "-m", "no")
			},
			func(b *box) { b.write(b.work.Dir, "other", "o\n"); b.commit("more") }, false, "a\nnew\nother\nsecond", // it comes again
		},
		"the agent takes its own back": {
			func(b *box) { b.user.Commit("z", "z\n") },
			func(b *box) {
				if err := os.Remove(filepath.Join(b.work.Dir, "new")); err != nil {
					b.t.Fatal(err)
				}
			}, false, "a\nz",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, "new", "1\n")
			if name == "amended away" { // something of what was brought is left
				b.write(b.work.Dir, "second", "1\n")
			}
			b.mustApply(Options{})
			test.user(b)
			test.agent(b)
			if test.conflicts {
				b.refuses(Options{}, "conflict", "new")
			} else {
				b.mustApply(Options{})
			}
			if files := b.user.Git("ls-tree", "-r", "--name-only", "main"); files != test.files {
				t.Errorf("files: %q, want %q", files, test.files)
			}
			if status := b.user.Git("status", "--porcelain"); status != "" {
				t.Errorf("status: %q", status)
			}
		})
	}
}

// What either side rewrote since is in no history that both have: git's own merge base counts, and the user decides.
func TestApplyOfWhatWasRewritten(t *testing.T) {
	t.Parallel()
	for name, rewrite := range map[string]func(b *box){
		"the agent amends": func(b *box) {
			b.write(b.work.Dir, "new", "0\n1\n2\nnext\n")
			b.work.Git("commit", "-q", "-a", "--amend", "-m", "rewritten")
		},
		"the user amends": func(b *box) {
			b.write(b.user.Dir, "new", "USER\n1\n2\n")
			b.user.Git("commit", "-q", "-a", "--amend", "--no-edit")
			b.write(b.work.Dir, "new", "0\n1\n2\nnext\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, "new", "0\n1\n2\n")
			b.commit("work")
			b.mustApply(Options{})
			rewrite(b)
			b.refuses(Options{}, "conflict", "new")
		})
	}
}

// An apply that fails is not remembered, and what was remembered before stays.
func TestApplyAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "new", "1\n")
	b.mustApply(Options{})
	b.write(b.work.Dir, "new", "1\n2\n")
	b.write(b.user.Dir, ".git/refs/heads/main.lock", "")
	if _, err := b.apply(Options{}); err == nil {
		t.Fatal("a locked branch was moved")
	}
	if err := os.Remove(filepath.Join(b.user.Dir, ".git/refs/heads/main.lock")); err != nil {
		t.Fatal(err)
	}
	if s := b.open(); len(s.state.Applied) != 1 || len(s.Changes) != 1 {
		t.Errorf("%+v, %+v", s.state, s.Review)
	}
	b.mustApply(Options{})
	if got := b.user.Git("show", "main:new"); got != "1\n2" {
		t.Errorf("new is %q", got)
	}
}

// A branch that is new gets the work, though another branch has it all.
func TestApplyIntoANewBranchAfterAnother(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	tip := b.commit("work")
	b.mustApply(Options{})
	b.mustApply(Options{Into: "feature"})
	if at := b.user.Git("rev-parse", "feature"); at != tip {
		t.Errorf("feature is at %s", at)
	}
}

// A branch that the user made of another, or merged, has what that got.
func TestApplyToABranchThatHasAnother(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	content := ""
	goOn := func(line string) {
		content += line + "\n"
		b.write(b.work.Dir, "new", content)
		b.mustApply(Options{})
		if got := b.user.Git("show", "HEAD:new") + "\n"; got != content {
			t.Errorf("new is %q, want %q", got, content)
		}
	}
	goOn("one")
	b.user.Git("checkout", "-q", "-b", "side")
	b.commit("one")
	goOn("two")
	b.user.Git("checkout", "-q", "main")
	b.user.Commit("z", "z\n")
	b.user.Git("merge", "-q", "--no-edit", "side")
	b.commit("two")
	goOn("three")
}

// What the user committed by hand after an apply is taken over, and nothing that they don't have.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	commit := func(b *box) { b.user.Git("add", "-A"); b.user.Git("commit", "-q", "-m", "mine") }
	for name, test := range map[string]struct {
		options Options
		then    func(b *box)
		want    bool
	}{
		"committed by hand": {Options{NoCommit: true}, commit, true},
		"not committed yet": {Options{NoCommit: true}, func(*box) {}, false},
		"committed in part": {Options{NoCommit: true, Paths: []string{"a", "new"}}, func(b *box) { b.user.Git("add", "a"); b.user.Git("commit", "-q", "-m", "mine") }, false},
		"changed before":    {Options{NoCommit: true}, func(b *box) { b.write(b.user.Dir, "new", "mine\n"); commit(b) }, false},
		"chosen, all":       {Options{NoCommit: true, Paths: []string{"a", "new"}}, commit, true},
		"chosen, some":      {Options{Paths: []string{"a"}}, func(*box) {}, false},
		"the work goes on":  {Options{NoCommit: true}, func(b *box) { commit(b); b.write(b.work.Dir, "new", "more\n") }, false},
		"commits go on":     {Options{NoCommit: true, Paths: []string{"a", "new"}}, func(b *box) { commit(b); b.commit("1"); b.work.Git("rm", "-q", "a"); b.commit("2") }, false},
		"on another branch": {Options{NoCommit: true}, func(b *box) {
			b.user.Git("checkout", "-q", "-b", "other")
			commit(b)
			b.user.Git("checkout", "-q", "main")
		}, false},
		"back on the branch":      {Options{NoCommit: true}, func(b *box) { commit(b); b.user.Git("checkout", "-q", "-b", "other", "HEAD~") }, true},
		"never applied, the same": {Options{DryRun: true}, func(b *box) { b.write(b.user.Dir, "a", "2\n"); b.write(b.user.Dir, "new", "n\n"); commit(b) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, "a", "2\n")
			b.commit("work")
			b.write(b.work.Dir, "new", "n\n")
			b.mustApply(test.options)
			test.then(b)
			got, err := TakenOver(t.Context(), b.subject)
			if err != nil || got != test.want {
				t.Errorf("taken over: %v, %v", got, err)
			}
			if taken, _, err := gitrepo.Taken(b.subject.Workspace); err != nil || (taken != "") != test.want {
				t.Errorf("noted: %q, %v", taken, err)
			}
		})
	}
}
