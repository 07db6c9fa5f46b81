package review

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

func TestApplyBringsTheBranchForward(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "gone": "x", "dir/f": "f\n"})
	b.write(b.work.Dir, "a", "2\n")
	if err := os.RemoveAll(filepath.Join(b.work.Dir, "dir")); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "dir", "a file now\n")
	tip := b.commit("work")
	b.write(b.user.Dir, "mine", "untracked, and the user's\n")
	done := b.mustApply(Options{})
	if done.After != tip || done.Merged || done.Commits != 1 || done.Branch != "main" || done.Files != 3 {
		t.Errorf("done: %+v", done)
	}
	if status := b.user.Git("status", "--porcelain"); status != "?? mine" {
		t.Errorf("status: %q", status)
	}
	if log := b.user.Git("log", "--format=%s", "main"); log != "work\nbase" {
		t.Errorf("log: %q", log)
	}
	if again := b.mustApply(Options{}); again.After != "" {
		t.Errorf("again: %+v", again)
	}
	b.user.Git("fsck", "--strict")
}

func TestApplyCommitsWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", ".gitignore": "*.o\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.commit("work")
	b.write(b.work.Dir, "new", "n\n")
	b.write(b.work.Dir, "x.o", "ignored")
	b.mustApply(Options{Name: "U", Email: "u@example.com"})
	if log := b.user.Git("log", "--format=%s %an", "main"); log != "box: uncommitted work U\nwork A\nbase A" {
		t.Errorf("log: %q", log)
	}
	if files := b.user.Git("ls-files"); files != ".gitignore\na\nnew" {
		t.Errorf("files: %q", files)
	}
	if again := b.open(); len(again.Changes) != 0 {
		t.Errorf("after apply there is still something to review: %+v", again.Review)
	}
	b.write(b.work.Dir, "more", "m\n")
	if next := b.open(); len(next.Changes) != 1 {
		t.Errorf("only what is new since: %+v", next.Changes)
	}
	b.mustApply(Options{})
	if log := b.user.Git("log", "--format=%s", "main"); strings.Count(log, "uncommitted") != 2 || strings.Contains(log, "Merge") {
		t.Errorf("log: %q", log)
	}
	if status := b.user.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
}

func TestARehearsalLeavesEveryByte(t *testing.T) {
	t.Parallel()
	commits := func(b *box) { b.write(b.work.Dir, "a", "2\n"); b.commit("work"); b.write(b.work.Dir, "new", "n\n") }
	for name, test := range map[string]struct {
		prepare func(b *box)
		options Options
	}{
		"forward":        {commits, Options{}},
		"merge":          {func(b *box) { commits(b); b.user.Commit("z", "z\n") }, Options{}},
		"paths":          {commits, Options{Paths: []string{"new"}}},
		"another branch": {commits, Options{Into: "feature"}},
		"the user's folder": {func(b *box) {
			commits(b)
			b.subject.Workspace.Mode, b.subject.Workspace.Path = "direct", b.user.Dir
		}, Options{}},
		"nothing committed yet": {func(b *box) {
			empty := *b.user
			empty.Dir = b.t.TempDir()
			empty.Git("init", "-q", "-b", "main", ".")
			tree := filepath.Join(b.t.TempDir(), "tree")
			b.write(tree, "a", "1\n")
			b.user = &empty
			w := &b.subject.Workspace
			w.Path, w.Source, w.Base, w.Repository.Store = tree, empty.Dir, "", filepath.Join(empty.Dir, ".git")
		}, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			test.prepare(b)
			before := b.bytes()
			test.options.DryRun = true
			would := b.mustApply(test.options)
			if diff := cmp.Diff(before, b.bytes()); diff != "" {
				t.Errorf("something was changed (-before +after):\n%s", diff)
			}
			test.options.DryRun = false
			if done := b.mustApply(test.options); !would.Changes() || done.Files != would.Files {
				t.Errorf("would %+v, did %+v", would, done)
			}
		})
	}
}

func TestApplyOfWhatIsThereAlready(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.user.Commit("a", "2\n")
	if done := b.mustApply(Options{DryRun: true}); done.Changes() {
		t.Errorf("done: %+v", done)
	}
	if taken, _, err := gitrepo.Taken(b.subject.Workspace); taken != "" || err != nil {
		t.Errorf("noted in a rehearsal: %q, %v", taken, err)
	}
	b.mustApply(Options{})
	if taken, _, err := gitrepo.Taken(b.subject.Workspace); taken != b.user.Git("rev-parse", "main") || err != nil {
		t.Errorf("noted %q, %v", taken, err)
	}
}

func TestApplyMerges(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "b": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.commit("work")
	b.user.Commit("b", "the user's\n")
	b.write(b.user.Dir, "staged", "s\n")
	b.user.Git("add", "staged")
	done := b.mustApply(Options{})
	if !done.Merged {
		t.Errorf("done: %+v", done)
	}
	if got := b.user.Git("show", "main:a", "main:b"); got != "2\nthe user's" {
		t.Errorf("content: %q", got)
	}
	if status := b.user.Git("status", "--porcelain"); status != "A  staged" {
		t.Errorf("status: %q", status)
	}
}

func TestApplyRefusesConflicts(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a\x1b[31m": "1\n", "b": "1\n"})
	b.write(b.work.Dir, "a\x1b[31m", "2\n")
	b.commit("work")
	b.user.Commit("a\x1b[31m", "3\n")
	b.refuses(Options{}, `a\x1b[31m`)
}

func TestApplyLeavesTheUsersOwnChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *box){
		"changed":   func(b *box) { b.write(b.user.Dir, "a", "mine\n") },
		"staged":    func(b *box) { b.write(b.user.Dir, "a", "mine\n"); b.user.Git("add", "a") },
		"untracked": func(b *box) { b.write(b.user.Dir, "new", "mine\n") },
		"ignored":   func(b *box) { b.write(b.user.Dir, ".git/info/exclude", "new\n"); b.write(b.user.Dir, "new", "mine\n") },
		"ignored folder": func(b *box) {
			b.write(b.user.Dir, ".git/info/exclude", "new\n")
			b.write(b.user.Dir, "new/file", "mine\n")
		},
		"ignored file for a folder": func(b *box) {
			b.write(b.user.Dir, ".git/info/exclude", "deep\n")
			b.write(b.user.Dir, "deep", "mine\n")
		},
		"folder": func(b *box) { b.write(b.user.Dir, "new/file", "mine\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n", "z": "1\n"})
			b.write(b.work.Dir, "a", "2\n")
			b.write(b.work.Dir, "new", "n\n")
			b.write(b.work.Dir, "deep/er", "n\n")
			b.commit("work")
			change(b)
			b.refuses(Options{}, "in the way")
		})
	}
}

func TestApplyRefusesWhileAnotherIsAtWork(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"index locked": "index.lock", "merge": "MERGE_HEAD", "rebase": "rebase-merge/head-name"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, "a", "2\n")
			b.commit("work")
			b.write(b.user.Dir, ".git/"+file, "")
			b.refuses(Options{})
		})
	}
}

func TestApplyIntoAnotherBranch(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	tip := b.commit("work")
	b.write(b.user.Dir, "a", "the user works on\n")
	b.mustApply(Options{Into: "feature/x"})
	if got := b.user.Git("rev-parse", "feature/x"); got != tip {
		t.Errorf("feature/x is at %s", got)
	}
	if status := b.user.Git("status", "--porcelain"); status != "M a" {
		t.Errorf("status: %q", status)
	}
	b.user.Git("worktree", "add", "-q", "-b", "elsewhere", filepath.Join(t.TempDir(), "w"), "HEAD")
	b.refuses(Options{Into: "elsewhere"}, "another working folder")
	if _, err := b.apply(Options{Into: "-x"}); err == nil {
		t.Error("-x is no branch")
	}
	if _, err := b.apply(Options{Into: "forage-box"}); err == nil {
		t.Error("it is the sandbox's own")
	}
}

func TestApplyOfSomePaths(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "dir/b": "1\n", "dir/gone": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.write(b.work.Dir, "dir/b", "2\n")
	b.commit("work")
	if err := os.Remove(filepath.Join(b.work.Dir, "dir/gone")); err != nil {
		t.Fatal(err)
	}
	b.user.Commit("mine", "m\n")
	b.mustApply(Options{Paths: []string{"./dir/"}})
	if got := b.user.Git("log", "-1", "--format=%s %P", "main"); got != "box: dir "+b.user.Git("rev-parse", "main~1") {
		t.Errorf("commit: %q", got)
	}
	if files := b.user.Git("ls-files"); files != "a\ndir/b\nmine" {
		t.Errorf("files: %q", files)
	}
	if got := b.user.Git("show", "main:a"); got != "1" {
		t.Errorf("a is %q", got)
	}
	for _, path := range []string{"nothing", "", "../a"} {
		if _, err := b.apply(Options{Paths: []string{path}}); err == nil {
			t.Errorf("nothing was changed at %q", path)
		}
	}
}

func TestApplyOfAFolderThatIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "b": "1\n"})
	w := &b.subject.Workspace
	w.Mode, w.Path, w.Source = "direct", b.user.Dir, ""
	b.write(b.work.Dir, "a", "2\n")
	tip := b.commit("work")
	b.write(b.user.Dir, "a", "2\n")           // the files are the same: it is one folder
	b.write(b.user.Dir, "b", "not committed") // inside or by the user, who knows
	b.write(b.user.Dir, "staged", "by the user")
	b.user.Git("add", "staged")
	if got := len(b.open().Changes); got != 3 {
		t.Errorf("%d changes", got)
	}
	b.mustApply(Options{})
	if got := b.user.Git("rev-parse", "main"); got != tip {
		t.Errorf("main is at %s", got)
	}
	if status := b.user.Git("status", "--porcelain"); status != "M b\nA  staged" {
		t.Errorf("status: %q", status)
	}
	b.user.Commit("a", "3\n")
	b.write(b.work.Dir, "b", "2\n")
	b.commit("more")
	b.refuses(Options{}, "main has moved")
}

func TestApplyOfAClone(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	store := filepath.Join(t.TempDir(), "store")
	b.user.Git("clone", "-q", "--bare", "--shared", "--config", "forage.store=true", ".", store)
	clone := *b.user
	clone.Dir = filepath.Join(t.TempDir(), "work")
	bare := *b.user
	bare.Dir = store
	bare.Git("worktree", "add", "-q", "-B", "forage-box", clone.Dir, "main")
	b.user.Git("worktree", "remove", b.work.Dir)
	b.user.Git("branch", "-q", "-D", "forage-box")
	b.work = &clone
	w := &b.subject.Workspace
	w.Mode, w.Path, w.Repository.Store = "clone", clone.Dir, store
	b.write(clone.Dir, "a", "2\n")
	b.commit("work")
	b.write(clone.Dir, "new", "n\n")
	b.user.Commit("mine", "m\n") // which the clone has never seen
	done := b.mustApply(Options{})
	if !done.Merged {
		t.Errorf("done: %+v", done)
	}
	if files := b.user.Git("ls-files"); files != "a\nmine\nnew" {
		t.Errorf("files: %q", files)
	}
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	b.user.Git("fsck", "--strict")
	if status := b.user.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
}

func TestApplyToARepositoryWithoutCommits(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	empty := *b.user
	empty.Dir = t.TempDir()
	empty.Git("init", "-q", "-b", "main", ".")
	tree := filepath.Join(t.TempDir(), "tree")
	b.write(tree, "a", "1\n")
	b.user = &empty
	w := &b.subject.Workspace
	w.Path, w.Source, w.Base, w.Repository.Store = tree, empty.Dir, "", filepath.Join(empty.Dir, ".git")
	if got := len(b.open().Changes); got != 1 {
		t.Errorf("%d changes", got)
	}
	b.mustApply(Options{})
	if status := b.user.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
	if files := b.user.Git("ls-tree", "--name-only", "main"); files != "a" {
		t.Errorf("files: %q", files)
	}
}

// A kill at any of these moments leaves a repository that git works in, and the next apply is as the first.
func TestApplyAfterAKill(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"noted", "some files", "files", "index", "branch"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n", "gone": "x\n", "mine": "1\n", "same": "s\n"})
			b.write(b.work.Dir, "a", "2\n")
			b.write(b.work.Dir, "new/deep", "n\n")
			if err := os.Remove(filepath.Join(b.work.Dir, "gone")); err != nil {
				t.Fatal(err)
			}
			b.commit("work")
			b.write(b.user.Dir, "mine", "the user's change\n")
			before := b.everything()
			kill(t, b, moment)
			b.user.Git("status")
			b.user.Git("fsck", "--strict")
			if moment == "some files" || moment == "files" {
				// Taken back as a whole, if there is nothing to apply to it again.
				if err := Recover(t.Context(), b.subject, nil); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, b.everything()); diff != "" {
					t.Errorf("taken back (-before +after):\n%s", diff)
				}
			}
			b.mustApply(Options{})
			if status := b.user.Git("status", "--porcelain"); status != "M mine" {
				t.Errorf("status: %q", status)
			}
			if log := b.user.Git("log", "--format=%s", "main"); log != "work\nbase" {
				t.Errorf("log: %q", log)
			}
		})
	}
}

// kill does what install does, up to a moment.
func kill(t *testing.T, b *box, moment string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := b.open()
	target, err := s.target(t.Context(), "")
	check(err)
	check(s.staging.Bring(t.Context(), target.repo, s.tip, target.commit, s.Base))
	i := &installation{target: target, subject: s.subject, journal: journal{
		GitDir: target.repo.GitDir, Branch: "main", From: target.commit, To: s.tip, Before: s.base, After: s.Tree,
	}}
	check(i.write())
	index := i.index
	switch moment {
	case "noted":
		return
	case "some files":
		b.write(b.user.Dir, "a", "2\n")
		check(os.Remove(filepath.Join(b.user.Dir, "gone")))
		return
	case "files":
		b.write(b.user.Dir, ".git/index.lock", "the beginning of an index")
		index = filepath.Join(t.TempDir(), "index")
		check(workspace.CopyFile(i.index, index, maxIndex))
	}
	i.refresh(t.Context(), index)
	_, err = i.run(t.Context(), index, nil, i.readTree(i.Before, i.After)...)
	check(err)
	if moment == "branch" {
		check(i.move(t.Context(), s.tip, "apply"))
	}
}

// Where the work has a folder in the place of a link of the user's, what the link leads to is not the work's, even if it looks the same.
func TestAKilledApplyTakesNothingBackThroughALink(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "gone": "x\n"})
	outside := t.TempDir()
	b.write(outside, "f", "the same\n")
	if err := os.Symlink(outside, filepath.Join(b.user.Dir, "lib")); err != nil {
		t.Fatal(err)
	}
	b.user.Git("add", "-A")
	b.user.Git("commit", "-q", "-m", "a link")
	b.work.Git("reset", "-q", "--hard", "main")
	b.subject.Workspace.Base = b.user.Git("rev-parse", "HEAD")
	if err := os.Remove(filepath.Join(b.work.Dir, "lib")); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "lib/f", "the same\n")
	b.commit("a folder in its place")
	kill(t, b, "some files")
	if err := Recover(t.Context(), b.subject, nil); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(text) != "the same\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestApplyIsTakenBackWhenTheBranchCannotMove(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n", "gone": "x\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.write(b.work.Dir, "new/deep", "n\n")
	if err := os.Remove(filepath.Join(b.work.Dir, "gone")); err != nil {
		t.Fatal(err)
	}
	b.commit("work")
	before := b.everything()
	_, install, err := b.open().Prepare(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(b.user.Dir, ".git/refs/heads/main.lock")
	b.write(filepath.Dir(lock), filepath.Base(lock), "")
	if _, err := install(t.Context()); err == nil {
		t.Fatal("the branch was moved although it is locked")
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, b.everything()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestApplyOfFilesOfAnotherCommit: an agent that looks at an older commit has not taken back what came later.
func TestApplyOfFilesOfAnotherCommit(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "one\n"})
	base := b.subject.Workspace.Base
	b.write(b.work.Dir, "a", "two\n")
	tip := b.commit("second")
	b.work.Git("read-tree", "-u", "--reset", base)
	repository := b.subject.Workspace.Repository
	repository.Head = "forage-box"
	b.write(repository.Dir, "git/HEAD", base+"\n")
	b.write(repository.Dir, "git/refs/heads/forage-box", tip+"\n")
	b.write(filepath.Dir(repository.Dir), "main.imported", fmt.Sprintf(`{"tip": %q, "own": %q, "head": %q, "branch": %q}`, tip, tip, base, tip))
	b.write(b.work.Dir, "b", "new\n")
	if notes := b.open().Notes; len(notes) != 1 || !strings.HasPrefix(notes[0], base[:12]+" is checked out inside") {
		t.Errorf("the notes are %q", notes)
	}
	b.refuses(Options{}, base[:12]+" is checked out inside")
	b.mustApply(Options{Paths: []string{"b"}})
	b.write(repository.Dir, "git/HEAD", "ref: refs/heads/forage-box\n")
	b.write(filepath.Dir(repository.Dir), "main.imported", fmt.Sprintf(`{"tip": %q, "own": %q, "head": %q, "branch": %q}`, tip, tip, tip, tip))
	b.mustApply(Options{})
}

func TestApplySaysWhatIsNotAsShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		attributes, note string
	}{
		"nothing":             {"* text\n", ""},
		"a filter":            {"a filter=lfs\n", "1 files have a filter"},
		"a nested repository": {"* text\n", "left out: inner; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, "a", "2\n")
			b.write(b.work.Dir, ".gitattributes", test.attributes)
			if name == "a nested repository" {
				b.work.Git("init", "-q", "inner")
				b.write(b.work.Dir, "inner/one", "1\n")
				b.write(b.work.Dir, "inner/deep/two", "2\n")
				if left := b.open().Left; len(left) != 1 || !strings.Contains(left[0].Why, "with 2 files") {
					t.Errorf("left: %+v", left)
				}
			}
			notes := strings.Join(b.mustApply(Options{}).Notes, "\n")
			if test.note == "" && notes != "" || !strings.Contains(notes, test.note) {
				t.Errorf("notes: %q, want %q", notes, test.note)
			}
			if again := b.mustApply(Options{}); again.Changes() || len(again.Notes) != len(b.open().leftOut()) {
				t.Errorf("applied again: %+v", again)
			}
		})
	}
}

func TestApplyRefusesABranchThatCannotMove(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.commit("work")
	b.user.Git("branch", "deep/er")
	b.refuses(Options{Into: "main/x"}, "there is a branch main")
	b.refuses(Options{Into: "deep"}, "there is a branch deep/er")
	b.user.Git("checkout", "-q", "--detach")
	b.write(b.user.Dir, ".git/rebase-merge/head-name", "refs/heads/main\n")
	if _, err := b.apply(Options{Into: "main"}); err == nil || !strings.Contains(err.Error(), "being rebased") {
		t.Errorf("a branch that is being rebased: %v", err)
	}
}

// A folder in the user's place that became a link leads out: nothing is written or removed through it.
func TestApplyWritesThroughNoLink(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	b := newBox(t, map[string]string{"a": "1\n", "dir/f": "1\n", "dir/gone": "1\n"})
	b.write(b.work.Dir, "dir/f", "2\n")
	b.write(b.work.Dir, "dir/new", "n\n")
	b.write(b.work.Dir, "fresh/new", "n\n")
	if err := os.Remove(filepath.Join(b.work.Dir, "dir/gone")); err != nil {
		t.Fatal(err)
	}
	b.commit("work")
	if err := os.Rename(filepath.Join(b.user.Dir, "dir"), filepath.Join(outside, "dir")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir", "fresh"} {
		if err := os.Symlink(filepath.Join(outside, "dir"), filepath.Join(b.user.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.refuses(Options{}, "in the way")
	for name, content := range map[string]string{"f": "1\n", "gone": "1\n", "new": ""} {
		if text, _ := os.ReadFile(filepath.Join(outside, "dir", name)); string(text) != content {
			t.Errorf("%s outside is %q", name, text)
		}
	}
}
