package review

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/term"
	"forage/internal/testgit"
	"forage/internal/workspace"
	"forage/internal/workspace/autorun"
)

// TestMain has files made with the modes that tests want, whatever the caller's umask.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}

// box is a repository of the user's with a worktree that stands for a sandbox's, whose commits are imported.
type box struct {
	t       *testing.T
	user    *testgit.Repo
	work    *testgit.Repo
	subject Subject
}

func newBox(t *testing.T, files map[string]string) *box {
	t.Helper()
	state := t.TempDir()
	b := &box{t: t, user: testgit.Init(t, t.TempDir())}
	for name, content := range files {
		b.write(b.user.Dir, name, content)
	}
	b.user.Git("add", "-A")
	b.user.Git("commit", "-q", "--allow-empty", "-m", "base")
	tree := filepath.Join(state, "workspaces/box")
	b.user.Git("worktree", "add", "-q", "-b", "forage-box", tree)
	work := *b.user
	work.Dir = tree
	b.work = &work
	b.subject = Subject{
		Sandbox: "box", Places: workspace.PlacesIn(state, t.TempDir()),
		Workspace: forage.Workspace{
			Name: "main", Mode: forage.WorkspaceWorktree, Path: tree, Source: b.user.Dir, Branch: "forage-box",
			Base: b.user.Git("rev-parse", "HEAD"),
			Repository: &forage.Repository{
				Kind: forage.RepositoryGit, Dir: filepath.Join(state, "repositories/box/main"), Store: filepath.Join(b.user.Dir, ".git"),
			},
		},
	}
	return b
}

func (b *box) write(dir, name, content string) {
	b.t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// commit makes a commit of everything in the work.
func (b *box) commit(message string) string {
	b.t.Helper()
	b.work.Git("add", "-A")
	b.work.Git("commit", "-q", "-m", message)
	return b.work.Git("rev-parse", "HEAD")
}

func (b *box) open() *Session {
	b.t.Helper()
	s, err := Open(b.t.Context(), b.subject)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return s
}

// apply applies as a command does: what an interrupted one left is taken back before.
func (b *box) apply(o Options) (Applied, error) {
	b.t.Helper()
	if err := Recover(b.t.Context(), b.subject, nil); err != nil {
		b.t.Fatal(err)
	}
	return b.open().Apply(b.t.Context(), o)
}

// mustApply applies and returns what was done.
func (b *box) mustApply(o Options) Applied {
	b.t.Helper()
	done, err := b.apply(o)
	if err != nil {
		b.t.Fatalf("%v (%s)", err, forage.Hint(err))
	}
	return done
}

// refuses applies, which has to be refused with these words and to leave the user's repository as it was.
func (b *box) refuses(o Options, words ...string) {
	b.t.Helper()
	before, bytes := b.everything(), b.bytes()
	_, err := b.apply(o)
	if !errors.Is(err, forage.ErrRefused) {
		b.t.Fatalf("apply: %v, want a refusal with %q", err, words)
	}
	if forage.Hint(err) == "" {
		b.t.Errorf("%v: no hint", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			b.t.Errorf("%v: doesn't say %q", err, word)
		}
	}
	if diff := cmp.Diff(before, b.everything()); diff != "" {
		b.t.Errorf("something was changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(bytes, b.bytes()); diff != "" {
		b.t.Errorf("something was changed in .git (-before +after):\n%s", diff)
	}
}

// bytes is all that the user's folder has, byte for byte, with its metadata.
func (b *box) bytes() map[string]string {
	b.t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(b.user.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if strings.Contains(path, "/.git/objects") { // git gives those a new time that it finds again
			all[path] = info.Mode().String()
		}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			all[path] += string(text)
			return err
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// everything is all of the user's that apply could change: refs, index, files.
func (b *box) everything() map[string]string {
	b.t.Helper()
	all := map[string]string{
		"refs": b.user.Git("for-each-ref"), "HEAD": b.user.Git("symbolic-ref", "HEAD"), "index": b.user.Git("ls-files", "-s", "-t"),
	}
	err := filepath.WalkDir(b.user.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == ".git" {
			return errors.Join(err, filepath.SkipDir)
		}
		name, _ := filepath.Rel(b.user.Dir, path)
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[name] = string(text)
			return err
		}
		all[name], _ = os.Readlink(path)
		return nil
	})
	if err != nil && !errors.Is(err, filepath.SkipDir) {
		b.t.Fatal(err)
	}
	return all
}

func (b *box) patch(colour bool) string {
	b.t.Helper()
	var out bytes.Buffer
	if err := b.open().Patch(b.t.Context(), &out, colour); err != nil {
		b.t.Fatal(err)
	}
	return out.String()
}

func TestReviewHasCommitsAndWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n2\n", "gone": "g\n", "old": "a name\nthat changes\n"})
	b.write(b.work.Dir, "a", "1\n2\n3\n")
	b.work.Git("mv", "old", "new")
	b.commit("first")
	b.write(b.work.Dir, "bin", "\x00\x01")
	if err := os.Remove(filepath.Join(b.work.Dir, "gone")); err != nil {
		t.Fatal(err)
	}
	s := b.open()
	got := s.Review
	for i := range got.Changes {
		got.Changes[i].oldID, got.Changes[i].newID = "", ""
	}
	want := Review{
		Part: "main", Base: b.subject.Workspace.Base, Branch: "forage-box", CommitsCount: 1,
		Commits: []workspace.Commit{{ID: b.work.Git("rev-parse", "HEAD"), Subject: "first"}},
		Changes: []Change{
			{Path: "a", Status: Modified, OldMode: 0o100644, NewMode: 0o100644, Added: 1},
			{Path: "bin", Status: Added, NewMode: 0o100644, Binary: true},
			{Path: "gone", Status: Deleted, OldMode: 0o100644, Removed: 1},
			{Path: "new", OldPath: "old", Status: Renamed, OldMode: 0o100644, NewMode: 0o100644},
		},
		Uncommitted: []string{"bin", "gone"}, Tree: got.Tree,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Change{})); diff != "" {
		t.Errorf("review (-want +got):\n%s", diff)
	}
	patch := b.patch(false)
	for _, part := range []string{"\n+3\n", "Binary files /dev/null and b/bin differ", "rename to new", "-g\n"} {
		if !strings.Contains(patch, part) {
			t.Errorf("the patch lacks %q:\n%s", part, patch)
		}
	}
}

func TestFindingsComeFirst(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1"})
	b.write(b.work.Dir, ".envrc", "touch /tmp/x\n")
	b.write(b.work.Dir, "nested/HEAD", "")
	nested := testgit.Init(t, t.TempDir())
	nested.Commit("x", "y")
	if err := errors.Join(
		os.RemoveAll(filepath.Join(b.work.Dir, "nested")), os.Rename(nested.Dir, filepath.Join(b.work.Dir, "nested")),
		os.Symlink("../../../etc", filepath.Join(b.work.Dir, "leads-out")),
	); err != nil {
		t.Fatal(err)
	}
	var kinds []autorun.Kind
	for _, finding := range b.open().Findings {
		kinds = append(kinds, finding.Kind)
	}
	if diff := cmp.Diff([]autorun.Kind{autorun.KindRepository, autorun.KindShell, autorun.KindLink}, kinds); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestPatchLetsNothingThroughToTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	name := "na\x1b[31mme\u202e\n+forged"
	b.write(b.work.Dir, name, "a\x1b]0;title\x07\tb\u202e\r\n@@ -1 +1 @@\n--- a/forged\n\xff\u009b1m\n")
	b.write(b.work.Dir, "long", strings.Repeat("xé", 3*maxLine)+"\nend\n")
	for _, colour := range []bool{false, true} {
		patch := b.patch(colour)
		for _, c := range []string{term.Bold, term.Red, term.Green, term.Cyan, term.Plain} {
			patch = strings.ReplaceAll(patch, c, "")
		}
		if at := strings.IndexFunc(strings.NewReplacer("\n", "", "\t", "").Replace(patch), func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' || r == '\u009b' }); at >= 0 {
			t.Errorf("colour %v: the patch has a control character:\n%q", colour, patch)
		}
		for _, part := range []string{"+a\\x1b]0;title\\x07\tb\\u202e\\r\n", "\n+--- a/forged\n", "\n+" + strings.Repeat("xé", 3*maxLine) + "\n+end\n"} {
			if !strings.Contains(patch, part) {
				t.Errorf("the patch lacks %q:\n%s", part, patch)
			}
		}
		if strings.Contains(patch, "\n+forged") {
			t.Error("a name made a line of its own")
		}
	}
	if coloured := b.patch(true); !strings.Contains(coloured, term.Green+"+--- a/forged"+term.Plain) {
		t.Errorf("a line of a file is taken for a head:\n%q", coloured)
	}
}

func TestPatchOfAHugeFileIsShort(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	file, err := os.Create(filepath.Join(b.work.Dir, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("y", 63) + "\n")
	for range (40 << 20) / len(line) {
		if _, err := file.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if patch := b.patch(false); len(patch) > 1000 || !strings.Contains(patch, "Binary files") {
		t.Errorf("the patch has %d bytes", len(patch))
	}
}

func TestSeenSaysWhetherTheContentIsAnother(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	s := b.open()
	if _, any := s.Seen(); any {
		t.Error("nothing was shown")
	}
	if err := s.MarkShown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if same, any := b.open().Seen(); !same || !any {
		t.Error("it is the same as was shown")
	}
	b.write(b.work.Dir, "a", "3\n")
	if same, _ := b.open().Seen(); same {
		t.Error("it is another than was shown")
	}
}

func TestARemovedFolderLeavesCommits(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.commit("work")
	if err := os.RemoveAll(b.work.Dir); err != nil {
		t.Fatal(err)
	}
	s := b.open()
	if len(s.Changes) != 1 || len(s.Notes) != 1 || len(s.Uncommitted) != 0 {
		t.Errorf("review: %+v", s.Review)
	}
}

func TestARepositoryThatIsGoneIsSaid(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	if err := os.Rename(b.user.Dir, b.user.Dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), b.subject)
	if !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" {
		t.Errorf("open: %v", err)
	}
}

func TestManyChangesAreListed(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	for i := range 3000 {
		b.write(b.work.Dir, fmt.Sprintf("dir%d/file%d", i%7, i), "x\n")
	}
	if got := len(b.open().Changes); got != 3000 {
		t.Errorf("%d changes", got)
	}
}
