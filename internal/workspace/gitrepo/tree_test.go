package gitrepo_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/testgit"
	"forage/internal/workspace/gitrepo"
)

// folderTest is a repository with one commit, and a checkout of it elsewhere that Forage makes
// trees of.
type folderTest struct {
	t      *testing.T
	repo   *testgit.Repo
	opened *gitrepo.Repository
	work   string
	index  string
}

func newFolderTest(t *testing.T, files map[string]string) *folderTest {
	t.Helper()
	home := t.TempDir()
	f := &folderTest{t: t, repo: &testgit.Repo{}, work: t.TempDir(), index: filepath.Join(t.TempDir(), "index")}
	f.repo = testgit.Init(t, home)
	for name, content := range files {
		writeFile(t, filepath.Join(f.repo.Dir, name), content)
		writeFile(t, filepath.Join(f.work, name), content)
	}
	f.repo.Git("add", "-A", "-f")
	f.repo.Git("commit", "-q", "--allow-empty", "-m", "base")
	var err error
	if f.opened, err = gitrepo.Open(t.Context(), f.repo.Dir); err != nil {
		t.Fatal(err)
	}
	return f
}

// tree makes a tree of the work with a staging store, and returns its files: "MODE CONTENT" by
// name.
func (f *folderTest) tree() (map[string]string, gitrepo.Tree) {
	f.t.Helper()
	staging, err := f.opened.Staging(f.t.TempDir(), filepath.Join(filepath.Dir(f.index), "objects"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer staging.Close()
	tree, err := staging.WriteTree(f.t.Context(), gitrepo.Folder{Path: f.work, Base: "HEAD", Index: f.index})
	if err != nil {
		f.t.Fatal(err)
	}
	list, err := staging.Git(f.t.Context(), gitrepo.Call{Args: []string{"ls-tree", "-r", "-z", tree.ID}})
	if err != nil {
		f.t.Fatal(err)
	}
	files := make(map[string]string)
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		head, name, ok := strings.Cut(entry, "\t")
		if !ok {
			continue
		}
		parts := strings.Fields(head)
		if parts[1] == "commit" {
			files[name] = parts[0]
			continue
		}
		content, err := staging.Git(f.t.Context(), gitrepo.Call{Args: []string{"cat-file", "blob", parts[2]}})
		if err != nil {
			f.t.Fatal(err)
		}
		files[name] = parts[0] + " " + string(content)
	}
	return files, tree
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestATreeIsWhatIsInTheFolder(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{
		"same": "same\n", "changed": "old\n", "gone": "x", "dir/becomes-file": "x", "file": "becomes a folder",
		".gitignore": "ignored\n*.o\n", "tracked.o": "tracked though ignored",
	})
	at := func(name string) string { return filepath.Join(f.work, name) }
	writeFile(t, at("changed"), "new\n")
	must(t, os.Remove(at("gone")))
	must(t, os.RemoveAll(at("dir")))
	writeFile(t, at("dir"), "a file now")
	must(t, os.Remove(at("file")))
	writeFile(t, at("file/in"), "y")
	writeFile(t, at("ignored"), "z")
	writeFile(t, at("un tracked\n"), "u")
	must(t, os.Chmod(at("un tracked\n"), 0o755))
	must(t, os.Symlink("/etc/passwd", at("link")))
	writeFile(t, at("tracked.o"), "and changed")
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	want := map[string]string{
		"same": "100644 same\n", "changed": "100644 new\n", "dir": "100644 a file now", "file/in": "100644 y",
		"un tracked\n": "100755 u", "link": "120000 /etc/passwd", "tracked.o": "100644 and changed",
		".gitignore": "100644 ignored\n*.o\n",
	}
	for _, round := range []string{"first", "with the kept index"} {
		got, _ := f.tree()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", round, diff)
		}
	}
	writeFile(t, at(".gitignore"), "un*\n*.o\nfifo\n")
	want[".gitignore"] = "100644 un*\n*.o\nfifo\n"
	want["ignored"] = "100644 z"
	delete(want, "un tracked\n")
	if got, _ := f.tree(); !cmp.Equal(want, got) {
		t.Errorf("after other rules for what is ignored (-want +got):\n%s", cmp.Diff(want, got))
	}
	if left := f.repo.Git("count-objects"); !strings.HasPrefix(left, "10 ") && !strings.HasPrefix(left, "11 ") {
		t.Logf("objects: %s", left)
	}
	if out := f.repo.Git("fsck", "--strict", "--unreachable", "--no-dangling"); out != "" {
		t.Errorf("the user's repository has objects of an uncommitted file: %s", out)
	}
}

func TestNothingIsReadThroughLinks(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"keys/id": "public", "keep": "k"})
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "id"), "SECRET of the host")
	writeFile(t, filepath.Join(outside, ".gitignore"), "keep\n")
	must(t, os.RemoveAll(filepath.Join(f.work, "keys")))
	must(t, os.Symlink(outside, filepath.Join(f.work, "keys")))
	must(t, os.Symlink(filepath.Join(outside, ".gitignore"), filepath.Join(f.work, ".gitignore")))
	got, _ := f.tree()
	want := map[string]string{
		"keys": "120000 " + outside, "keep": "100644 k", ".gitignore": "120000 " + filepath.Join(outside, ".gitignore"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestNestedRepositoriesAndFiltersRunNothing(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"file": "x\n", "other": "y\n"})
	ran := filepath.Join(t.TempDir(), "ran")
	attack := filepath.Join(t.TempDir(), "attack")
	must(t, os.WriteFile(attack, []byte("#!/bin/sh\ntouch "+ran+"\ncat\n"), 0o755))
	nested := testgit.Init(t, t.TempDir())
	nested.Commit("inner", "1")
	head := nested.Git("rev-parse", "HEAD")
	nested.Git("config", "core.fsmonitor", attack)
	must(t, os.Rename(nested.Dir, filepath.Join(f.work, "nested")))
	// A submodule of the base, whose folder is a repository of the agent's.
	f.repo.Git("update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
	f.repo.Git("commit", "-q", "-m", "submodule")
	sub := testgit.Init(t, t.TempDir())
	sub.Commit("inner", "2")
	for _, key := range []string{"core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv"} {
		sub.Git("config", key, attack)
		f.repo.Git("config", key, attack)
	}
	must(t, os.Rename(sub.Dir, filepath.Join(f.work, "sub")))
	writeFile(t, filepath.Join(f.work, ".gitattributes"), "* filter=evil diff=evil\n")
	writeFile(t, filepath.Join(f.work, "file"), "changed\n")
	for range 2 {
		got, tree := f.tree()
		want := map[string]string{
			"file": "100644 changed\n", "other": "100644 y\n", ".gitattributes": "100644 * filter=evil diff=evil\n", "sub": "160000",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"nested", "sub"}, tree.Nested); diff != "" {
			t.Errorf("nested (-want +got):\n%s", diff)
		}
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a program of the workspace ran")
	}
}

func TestWhatAnIndexPassesOverIsFound(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"assumed": "a", "sparse": "b", "absent": "c"})
	for name, flag := range map[string]string{"assumed": "--assume-unchanged", "sparse": "--skip-worktree", "absent": "--skip-worktree"} {
		f.repo.Git("update-index", flag, name)
	}
	writeFile(t, filepath.Join(f.work, "assumed"), "changed 1")
	writeFile(t, filepath.Join(f.work, "sparse"), "changed 2")
	must(t, os.Remove(filepath.Join(f.work, "absent")))
	staging, err := f.opened.Staging(t.TempDir(), t.TempDir())
	must(t, err)
	defer staging.Close()
	tree, err := staging.WriteTree(t.Context(), gitrepo.Folder{Path: f.work, Base: "HEAD", Index: f.index, Seed: filepath.Join(f.repo.Dir, ".git/index")})
	must(t, err)
	diff, err := staging.Git(t.Context(), gitrepo.Call{Args: []string{"diff-tree", "-r", "--name-only", "HEAD^{tree}", tree.ID}})
	must(t, err)
	if string(diff) != "assumed\nsparse\n" {
		t.Errorf("changed are %q", diff)
	}
}

func TestADamagedKeptIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"file": "x"})
	want, _ := f.tree()
	must(t, os.WriteFile(f.index, []byte("DIRC and no more"), 0o600))
	if got, _ := f.tree(); !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	// The objects that it names went with a gc.
	writeFile(t, filepath.Join(f.work, "new"), "n")
	want, _ = f.tree()
	must(t, os.RemoveAll(filepath.Join(filepath.Dir(f.index), "objects")))
	if got, _ := f.tree(); !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

func TestLineEndsAreConvertedAsGitDoes(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{".gitattributes": "*.txt text=auto\n*.bin -text\n*.cmd text eol=crlf\n"})
	for _, name := range []string{"a.txt", "a.bin", "a.cmd", "a.other"} {
		writeFile(t, filepath.Join(f.work, name), "one\r\ntwo\r\n")
		writeFile(t, filepath.Join(f.repo.Dir, name), "one\r\ntwo\r\n")
	}
	_, tree := f.tree()
	f.repo.Git("add", "-A")
	if want := f.repo.Git("write-tree"); tree.ID != want {
		got, _ := f.tree()
		t.Errorf("tree %s, git's is %s: %q", tree.ID, want, got)
	}
}

func TestAttributesAndModesCannotKeepATreeFromBeingMade(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"locked/file": "old"})
	writeFile(t, filepath.Join(f.work, ".gitattributes"), "bad* working-tree-encoding=UTF-16\nworse* working-tree-encoding=no-such\n")
	writeFile(t, filepath.Join(f.work, "bad"), "x")
	writeFile(t, filepath.Join(f.work, "worse"), "y")
	writeFile(t, filepath.Join(f.work, "shut/file"), "z")
	writeFile(t, filepath.Join(f.work, "unreadable"), "z")
	locked := []string{"locked", "shut", "unreadable"}
	for _, name := range locked {
		must(t, os.Chmod(filepath.Join(f.work, name), 0))
	}
	t.Cleanup(func() {
		for _, name := range locked {
			must(t, os.Chmod(filepath.Join(f.work, name), 0o700))
		}
	})
	for range 2 {
		got, tree := f.tree()
		if got["bad"] != "100644 x" || got["worse"] != "100644 y" || got["locked/file"] != "100644 old" {
			t.Errorf("tree: %q", got)
		}
		if _, there := got["unreadable"]; !there && len(tree.Left) == 0 {
			t.Errorf("nothing is said of what can't be read: %q", got)
		}
	}
}

func TestNamesOfGitAreLeftOut(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, nil)
	for _, name := range []string{".GIT/hooks/pre-commit", "a/.Git/config", "git~1/config", ".git./x", ".g\u200cit/config", "fine"} {
		writeFile(t, filepath.Join(f.work, name), "x")
	}
	got, tree := f.tree()
	if diff := cmp.Diff(map[string]string{"fine": "100644 x"}, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if len(tree.Left) < 3 {
		t.Errorf("left out are only %v", tree.Left)
	}
}

// TestWhatFailsChecksIsLeftOut: such files, and new ones like them.
func TestWhatFailsChecksIsLeftOut(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{".gitattributes": "a text\n", "gone": "x"})
	must(t, os.Remove(filepath.Join(f.work, "gone")))
	writeFile(t, filepath.Join(f.work, ".gitmodules"), "[submodule \"../../x\"]\n path = -y\n url = --upload-pack=touch\n")
	writeFile(t, filepath.Join(f.work, ".gitattributes"), strings.Repeat("a", 3000)+" text\n")
	writeFile(t, filepath.Join(f.work, "fine"), "x")
	writeFile(t, filepath.Join(f.work, "sub/.gitattributes"), "b text\n")
	writeFile(t, filepath.Join(f.work, ".gitignore"), "*.o\n")
	must(t, os.Symlink("fine", filepath.Join(f.work, "GITMOD~1")))
	got, tree := f.tree()
	want := map[string]string{"fine": "100644 x", ".gitattributes": "100644 a text\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	const why = "git's checks refuse it, or a file like it"
	left := []gitrepo.Left{
		{".gitattributes", why}, {".gitignore", why}, {".gitmodules", why}, {"GITMOD~1", why}, {"sub/.gitattributes", why},
	}
	slices.SortFunc(tree.Left, func(a, b gitrepo.Left) int { return strings.Compare(a.Path, b.Path) })
	if diff := cmp.Diff(left, tree.Left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// TestAClosedFolder: its owner is let in again.
func TestAClosedFolder(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, nil)
	writeFile(t, filepath.Join(f.work, "fine"), "x")
	must(t, os.Chmod(f.work, 0))
	t.Cleanup(func() { must(t, os.Chmod(f.work, 0o700)) })
	if got, _ := f.tree(); got["fine"] != "100644 x" {
		t.Errorf("tree: %q", got)
	}
}

func TestUnsafePath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"a/b": false, ".gitignore": false, ".github/x": false, "a..b": false, "git": false, "-x": false, "a\nb": false,
		"": true, "/a": true, "../a": true, "a/../b": true, "a//b": true, "a/.": true, "a\x00b": true,
		".git": true, "a/.GIT/b": true, "a/.jj/repo": true, ".JJ": true, ".jjx": false, ".git ": true, ".git.": true, "git~1": true, ".git::$INDEX_ALLOCATION": true,
		`a\.git\b`: true, ".g\u200cit": true, "\ufeff.git": true, strings.Repeat("x", 256): true,
	} {
		if got := gitrepo.UnsafePath(path) != ""; got != want {
			t.Errorf("UnsafePath(%q) refuses: %v", path, got)
		}
	}
}

func TestBringCopiesWhatTheRepositoryLacks(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"a": "1"})
	writeFile(t, filepath.Join(f.work, "b"), "2")
	objects, err := os.MkdirTemp("/dev/shm", "bring") // another file system, mostly
	must(t, err)
	defer os.RemoveAll(objects)
	staging, err := f.opened.Staging(t.TempDir(), objects)
	must(t, err)
	defer staging.Close()
	tree, err := staging.WriteTree(t.Context(), gitrepo.Folder{Path: f.work, Base: "HEAD"})
	must(t, err)
	has := f.repo.Git("rev-parse", "HEAD")
	commit, err := staging.Line(t.Context(), "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "b", "-p", has, tree.ID)
	must(t, err)
	if _, _, err := f.repo.Run(nil, "cat-file", "-e", tree.ID); err == nil {
		t.Fatal("the repository has the tree before it is brought")
	}
	for range 2 {
		must(t, staging.Bring(t.Context(), f.opened, commit, has))
	}
	if got := f.repo.Git("ls-tree", "--name-only", commit); got != "a\nb" {
		t.Errorf("the tree has %q", got)
	}
	f.repo.Git("fsck", "--strict")
}

// Files whose holes cost nothing inside don't have the host read for hours.
func TestFilesOfTooManyBytesAreLeftOut(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"a": "1\n"})
	for _, name := range []string{"x", "y", "z"} {
		writeFile(t, filepath.Join(f.work, name), "12345")
	}
	staging, err := f.opened.Staging(t.TempDir(), filepath.Join(t.TempDir(), "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer staging.Close()
	tree, err := staging.WriteTree(t.Context(), gitrepo.Folder{Path: f.work, Base: "HEAD", Most: 10})
	if err != nil || len(tree.Left) != 1 || tree.Left[0].Path != "z" {
		t.Errorf("%+v, %v", tree, err)
	}
}

// A file that was changed in the instant in which the index was written, and has kept its size, is
// found: the index that is worked on has the time of the one that it is a copy of.
func TestAChangeInTheInstantOfTheIndexIsFound(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"a": "1\n"})
	f.work = f.repo.Dir
	f.repo.Git("config", "core.trustctime", "false") // which can't be set back, as times of change can
	f.repo.Git("config", "core.checkStat", "minimal")
	var err error
	f.opened, err = gitrepo.Open(t.Context(), f.repo.Dir)
	must(t, err)
	instant := time.Now().Add(-time.Minute).Truncate(time.Second)
	seed, file := filepath.Join(f.repo.Dir, ".git/index"), filepath.Join(f.work, "a")
	must(t, os.Chtimes(file, instant, instant))
	f.repo.Git("update-index", "--refresh")
	writeFile(t, file, "2\n")
	must(t, os.Chtimes(file, instant, instant))
	must(t, os.Chtimes(seed, instant, instant))
	staging, err := f.opened.Staging(t.TempDir(), t.TempDir())
	must(t, err)
	defer staging.Close()
	for range 2 { // with the seed, and with what is kept
		tree, err := staging.WriteTree(t.Context(), gitrepo.Folder{Path: f.work, Base: "HEAD", Index: f.index, Seed: seed})
		must(t, err)
		content, err := staging.Line(t.Context(), "cat-file", "blob", tree.ID+":a")
		if err != nil || content != "2" {
			t.Errorf("a is %q, %v", content, err)
		}
	}
}

// Git passes over names without an error that a file system may take for .gitmodules.
func TestNamesThatGitPassesOverAreLeftOut(t *testing.T) {
	t.Parallel()
	f := newFolderTest(t, map[string]string{"d/b": "two"})
	must(t, os.Mkdir(filepath.Join(f.work, "e"), 0o755))
	want := []string{".gitmodules", ".gitmodules ", "GITMOD~1", "e/.gitmodules"}
	for _, name := range want {
		must(t, os.Symlink("d", filepath.Join(f.work, name)))
	}
	writeFile(t, filepath.Join(f.work, "new"), "new")
	files, tree := f.tree()
	var left []string
	for _, file := range tree.Left {
		left = append(left, file.Path)
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"d/b": "100644 two", "new": "100644 new"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
