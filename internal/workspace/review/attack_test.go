package review

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/testgit"
)

// plant makes a commit of entries as `git mktree` takes them, whatever git would say of them, on the sandbox's branch: as if
// no check had been made when it came in.
func (b *box) plant(entries string) {
	b.t.Helper()
	out, messages, err := b.user.Run([]byte(entries), "mktree", "--missing")
	if err != nil {
		b.t.Fatal(err, messages)
	}
	commit := b.user.Git("commit-tree", "-m", "planted", "-p", b.subject.Workspace.Base, strings.TrimSpace(string(out)))
	b.user.Git("update-ref", "refs/heads/forage-box", commit)
}

func (b *box) blob(content string) string {
	b.t.Helper()
	out, messages, err := b.user.Run([]byte(content), "hash-object", "-w", "--stdin")
	if err != nil {
		b.t.Fatal(err, messages)
	}
	return strings.TrimSpace(string(out))
}

func (b *box) tree(entries string) string {
	b.t.Helper()
	out, messages, err := b.user.Run([]byte(entries), "mktree")
	if err != nil {
		b.t.Fatal(err, messages)
	}
	return strings.TrimSpace(string(out))
}

// Trees that were crafted: none of them reaches the user's files, and none stays unsaid.
func TestApplyRefusesCraftedTrees(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string]func(b *box) string{
		"a hook": func(b *box) string {
			hooks := b.tree("100755 blob " + b.blob("#!/bin/sh\n") + "\tpost-checkout\n")
			return "040000 tree " + b.tree("040000 tree "+hooks+"\thooks\n") + "\t.git\n"
		},
		"in capitals": func(b *box) string {
			return "040000 tree " + b.tree("100644 blob "+b.blob("[core]\n")+"\tconfig\n") + "\t.GIT\n"
		},
		"short name": func(b *box) string {
			return "040000 tree " + b.tree("100644 blob "+b.blob("[core]\n")+"\tconfig\n") + "\tGIT~1\n"
		},
		"invisible": func(b *box) string {
			return "040000 tree " + b.tree("100644 blob "+b.blob("[core]\n")+"\tconfig\n") + "\t.g\u200cit\n"
		},
		"deeper": func(b *box) string {
			inner := b.tree("100644 blob " + b.blob("gitdir: /tmp\n") + "\t.git\n")
			return "040000 tree " + inner + "\tlib\n"
		},
		"upwards": func(b *box) string {
			return "040000 tree " + b.tree("100644 blob "+b.blob("x")+"\tout\n") + "\t..\n"
		},
		"a link and a file below it": func(b *box) string {
			return "120000 blob " + b.blob("/tmp") + "\ta\n040000 tree " + b.tree("100644 blob "+b.blob("x")+"\tb\n") + "\ta\n"
		},
		"a file twice": func(b *box) string {
			return "100644 blob " + b.blob("x") + "\ta\n100644 blob " + b.blob("y") + "\ta\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			if err := os.RemoveAll(b.work.Dir); err != nil { // the commits alone
				t.Fatal(err)
			}
			b.plant(entries(b))
			for _, o := range []Options{{}, {Into: "other"}} {
				before := b.everything()
				done, err := b.apply(o)
				if err == nil {
					t.Fatalf("applied: %+v", done)
				}
				if after := b.everything(); fmt.Sprint(before) != fmt.Sprint(after) {
					t.Errorf("something was changed: %v", after)
				}
			}
		})
	}
}

func TestApplyRefusesLinksThatLeave(t *testing.T) {
	t.Parallel()
	for name, links := range map[string]map[string]string{
		"absolute":          {"l": "/etc/passwd"},
		"upwards":           {"l": "../x"},
		"below a folder":    {"d/l": "../../x"},
		"through another":   {"d/e/root": "../..", "d/e/l": "root/../x"},
		"into the metadata": {"l": ".git/hooks"},
		"round and round":   {"l": "m", "m": "l"},
		"too long":          {"l": strings.Repeat("a/", 3000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			for link, target := range links {
				if len(target) > 4000 {
					b.plant("120000 blob " + b.blob(target) + "\t" + link + "\n")
					b.work.Git("reset", "-q", "--soft", "forage-box")
					if err := os.RemoveAll(b.work.Dir); err != nil {
						t.Fatal(err)
					}
					continue
				}
				b.write(b.work.Dir, link, "")
				path := filepath.Join(b.work.Dir, link)
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
			}
			b.refuses(Options{}, "l (a link to")
			b.refuses(Options{Into: "other"}, "l (a link to")
			b.write(b.work.Dir, "fine", "f\n")
			if name != "too long" {
				b.mustApply(Options{Paths: []string{"fine"}})
			}
		})
	}
}

func TestApplyTakesLinksThatStay(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "out": "x"})
	if err := os.Remove(filepath.Join(b.user.Dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(b.work.Dir, "d/e"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"d/l": "../a", "d/e/root": "../..", "d/e/m": "root/a", "dangling": "not/there"} {
		if err := os.Symlink(target, filepath.Join(b.work.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	b.user.Git("checkout", "-q", "--", "out")
	b.mustApply(Options{})
	if status := b.user.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
}

// Nothing that the sandbox or the repository configures is executed by a review or by an apply.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "sub/keep": "1\n"})
	ran := filepath.Join(t.TempDir(), "ran")
	attack := filepath.Join(t.TempDir(), "attack")
	if err := os.WriteFile(attack, []byte("#!/bin/sh\ntouch "+ran+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
	b.write(b.work.Dir, "a", "2\n")
	b.commit("work")
	nested := testgit.Init(t, t.TempDir())
	nested.Commit("x", "y")
	for _, key := range []string{"core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.evil.command", "diff.external"} {
		nested.Git("config", key, attack)
		b.user.Git("config", key, attack)
	}
	b.user.Git("config", "merge.evil.driver", attack)
	b.user.Git("config", "core.pager", attack)
	b.user.Git("config", "gpg.program", attack)
	b.user.Git("config", "commit.gpgSign", "true")
	for _, hook := range []string{"post-checkout", "pre-commit", "post-commit", "post-merge", "reference-transaction", "post-index-change", "post-rewrite"} {
		b.write(b.user.Dir, ".git/hooks/"+hook, "#!/bin/sh\ntouch "+ran+"\n")
		if err := os.Chmod(filepath.Join(b.user.Dir, ".git/hooks", hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(nested.Dir, filepath.Join(b.work.Dir, "nested")); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "more", "m\n")
	commit := b.user.Git("commit-tree", "--no-gpg-sign", "-p", "main", "-m", "the user's", "main^{tree}")
	if err := os.WriteFile(filepath.Join(b.user.Dir, ".git/refs/heads/main"), []byte(commit+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ran); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	b.patch(true)
	done := b.mustApply(Options{})
	if !done.Merged || len(done.Notes) != 3 { // not signed, the filter, and the nested repository
		t.Errorf("done: %+v", done)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a program of the workspace or of the repository's configuration ran")
	}
	if text, err := os.ReadFile(filepath.Join(b.user.Dir, "a")); err != nil || string(text) != "2\n" {
		t.Errorf("a is %q: %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(b.user.Dir, "nested")); err == nil {
		t.Error("the nested repository was brought")
	}
}

// A new submodule whose folder has a repository from inside: the user's git status would go into it.
func TestApplyMakesNoSubmoduleOfWhatTheAgentHasMade(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		b := newBox(t, map[string]string{"a": "a\n"})
		base := b.subject.Workspace.Base
		b.plant("160000 commit " + base + "\tinner\n100644 blob " + b.blob("a\n") + "\ta\n")
		if direct { // there is no repository yet: one could be made afterwards
			w := &b.subject.Workspace
			w.Mode, w.Path, w.Source = "direct", b.user.Dir, ""
		} else {
			if err := os.Mkdir(filepath.Join(b.work.Dir, "inner"), 0o755); err != nil { // else it would be deleted again
				t.Fatal(err)
			}
			b.write(b.user.Dir, "inner/.git/config", "[core]\n\tfsmonitor = touch canary\n")
		}
		b.refuses(Options{}, "inner", "submodule")
	}
}

// Eight small trees that stand for a hundred million files.
// What was committed and then undone in the files is not what a review shows, and isn't what apply brings.
func TestApplyBringsNothingThatTheReviewHides(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, ".envrc", "touch canary\n")
	b.write(b.work.Dir, "a", "evil\n")
	b.write(b.work.Dir, "b", "fine\n")
	b.commit("work")
	b.write(b.work.Dir, "a", "1\n")
	if err := os.Remove(filepath.Join(b.work.Dir, ".envrc")); err != nil {
		t.Fatal(err)
	}
	s := b.open()
	if len(s.Changes) != 1 || fmt.Sprint(s.Uncommitted) != "[.envrc a]" {
		t.Errorf("review: %+v", s.Review)
	}
	b.mustApply(Options{})
	if files := b.user.Git("ls-tree", "-r", "--name-only", "main"); files != "a\nb" {
		t.Errorf("files: %q", files)
	}
	if got := b.user.Git("show", "main:a"); got != "1" {
		t.Errorf("a is %q", got)
	}
}

// In the user's own folder the commits come, whatever the files are.
func TestReviewOfAFolderThatIsTheUsersOwnShowsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, ".envrc", "touch canary\n")
	b.commit("work")
	w := &b.subject.Workspace
	w.Mode, w.Path, w.Source = "direct", b.user.Dir, ""
	if s := b.open(); len(s.Findings) != 1 || len(s.Notes) != 1 {
		t.Errorf("review: %+v", s.Review)
	}
}

// In the user's own folder the agent commits something else than is in the files, after the user has looked.
func TestWhatIsCommittedInAFolderOfTheUsersOwnAfterItWasShown(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "check": "1\n"})
	w := &b.subject.Workspace
	w.Mode, w.Path, w.Source = "direct", b.user.Dir, ""
	s := b.open()
	if err := s.MarkShown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if same, any := b.open().Seen(); !same || !any {
		t.Errorf("what was shown: %v, %v", same, any)
	}
	if err := os.Remove(filepath.Join(b.work.Dir, "check")); err != nil {
		t.Fatal(err)
	}
	b.commit("without the check")
	if s = b.open(); len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "check") {
		t.Errorf("review: %+v", s.Review)
	}
	if same, _ := s.Seen(); same {
		t.Error("what was committed since counts as shown")
	}
}
