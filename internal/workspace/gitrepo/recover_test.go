package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace"
)

// keep keeps the work of a box and returns what the recovery refs hold, by the last part of their
// names.
func (b *box) keep() (refs map[string]string, kept []workspace.Recovery) {
	b.t.Helper()
	kept, err := Keep(b.t.Context(), b.work, "box", b.scratch)
	if err != nil {
		b.t.Fatal(err)
	}
	refs = make(map[string]string)
	for _, r := range kept {
		if r.Ref == "" {
			continue
		}
		name, ok := strings.CutPrefix(r.Ref, RecoveryRefs+"box/"+r.Made.Format(recoveryTime)+"/")
		if !ok || r.Store != b.work.Repository.Store || r.Sandbox != "box" {
			b.t.Errorf("an odd recovery: %+v", r)
		}
		refs[name] = b.host.Git("rev-parse", r.Ref)
	}
	return refs, kept
}

func TestKeepHoldsAllWork(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	for _, text := range []string{"first", "second"} {
		write(t, filepath.Join(b.work.Path, "a"), text)
		b.inside.Git("stash", "-q")
	}
	older := b.inside.Git("rev-parse", "stash@{1}")
	b.inside.Git("checkout", "-q", "-b", "feature")
	feature := b.inside.Commit("f", "feature\n")
	b.inside.Git("checkout", "-q", b.work.Branch)
	b.inside.Commit("c", "three\n")
	tip := b.inside.Git("rev-parse", "HEAD")
	write(t, filepath.Join(b.work.Path, "a"), "uncommitted\n")
	write(t, filepath.Join(b.work.Path, "sub/new"), "new\n")
	stash := b.inside.Git("rev-parse", "stash")
	lost := b.inside.Commit("lost", "a commit that is taken back\n")
	b.inside.Git("reset", "-q", "--mixed", tip)
	must(t, os.Remove(filepath.Join(b.work.Path, "lost")))
	refs, kept := b.keep()
	folder := ""
	for _, r := range kept {
		folder += r.Folder
	}
	if got := b.host.Git("--git-dir="+filepath.Join(folder, "git"), "cat-file", "-t", lost); !strings.HasSuffix(got, "commit") {
		t.Errorf("the commit that no ref leads to: %q", got)
	}
	work := refs["work"]
	delete(refs, "work")
	want := map[string]string{"heads/feature": feature, "stash": stash, "stash-1": older}
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	if got := b.host.Git("rev-parse", work+"^"); got != tip {
		t.Errorf("uncommitted work is on top of %s, want %s", got, tip)
	}
	if got := b.host.Git("diff", "--name-only", tip, work); got != "a\nsub/new" {
		t.Errorf("uncommitted work has %q", got)
	}
	b.sound()
	// What was kept can be had again when everything of the sandbox is gone.
	b.host.Git("worktree", "remove", "--force", b.work.Path)
	b.host.Git("branch", "-q", "-D", b.work.Branch)
	must(t, os.RemoveAll(b.work.Repository.Dir))
	b.host.Git("gc", "-q", "--prune=now")
	b.host.Git("checkout", "-q", "-b", "again", work)
	if got := b.host.Git("show", "HEAD:sub/new"); got != "new" {
		t.Errorf("the uncommitted file came back as %q", got)
	}
}

func TestKeepOfWhatGitCannotHold(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	nested := filepath.Join(b.work.Path, "vendor/nested")
	must(t, os.MkdirAll(nested, 0o755))
	b.outside.Git("init", "-q", nested)
	write(t, filepath.Join(nested, "work"), "nowhere else\n")
	write(t, filepath.Join(b.work.Path, ".gitmodules"), "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=evil\n")
	write(t, filepath.Join(b.work.Path, "fine"), "x")
	// A branch with an object that is missing.
	b.inside.Git("checkout", "-q", "-b", "broken")
	broken := b.inside.Commit("x", "y\n")
	blob := b.inside.Git("rev-parse", broken+":x")
	b.inside.Git("checkout", "-q", b.work.Branch)
	must(t, os.Remove(b.path("objects", blob[:2], blob[2:])))
	refs, kept := b.keep()
	if got := b.host.Git("ls-tree", "--name-only", refs["work"]); strings.Contains(got, ".gitmodules") || !strings.Contains(got, "fine") {
		t.Errorf("the work has the files %q", got)
	}
	b.host.Git("fsck", "--strict")
	folder := ""
	for _, r := range kept {
		folder += r.Folder
	}
	if text, err := os.ReadFile(filepath.Join(folder, "files/vendor/nested/work")); err != nil || string(text) != "nowhere else\n" {
		t.Errorf("the nested repository is not in %q: %v", folder, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "files/.gitmodules")); err != nil || !strings.Contains(string(text), "evil") {
		t.Errorf("the file that git refuses is not in %q: %v", folder, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "git/refs/heads/broken")); err != nil {
		t.Errorf("the metadata with the broken branch is not kept: %v", err)
	}
}

// TestKeepOfWhatOnlyTheIndexHas: with the metadata, in which it is.
func TestKeepOfWhatOnlyTheIndexHas(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	write(t, filepath.Join(b.work.Path, "a"), "staged\n")
	b.inside.Git("add", "a")
	write(t, filepath.Join(b.work.Path, "a"), "one\n")
	if status := b.unsaved(); !slices.Equal(status.Uncommitted, []string{"a"}) {
		t.Errorf("unsaved: %+v", status)
	}
	_, kept := b.keep()
	folder := ""
	for _, r := range kept {
		folder += r.Folder
	}
	if got := b.host.Git("--git-dir="+filepath.Join(folder, "git"), "show", ":a"); got != "staged" {
		t.Errorf("in %q, the index has %q", folder, got)
	}
}

// TestKeepOfARepositoryInTheFolder: a commit says only which commit it was at. One whose .git is a
// file has the rest elsewhere, such as in the private metadata.
func TestKeepOfARepositoryInTheFolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, committed bool
		wants           string // unsaved but for the folder
	}{
		"committed":          {false, true, ""},
		"a file, committed":  {true, true, ""},
		"a file, not a word": {true, false, "sub/work"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, newHost(t), "box")
			nested := filepath.Join(b.work.Path, "sub")
			b.outside.Git("init", "-q", nested)
			write(t, filepath.Join(nested, "work"), "nowhere else\n")
			b.outside.Git("-C", nested, "add", "-A")
			b.outside.Git("-C", nested, "commit", "-q", "-m", "inner")
			if test.committed {
				b.inside.Git("add", "-A")
				b.inside.Git("commit", "-q", "-m", "with sub")
			}
			if test.file {
				must(t, os.MkdirAll(b.path("modules"), 0o755))
				must(t, os.Rename(filepath.Join(nested, ".git"), b.path("modules/sub")))
				write(t, filepath.Join(nested, ".git"), "gitdir: ../.git/modules/sub\n")
			}
			b.importIt()
			want := []string{"sub/"}
			if test.wants != "" {
				want = append(want, test.wants)
			}
			if status := b.unsaved(); !slices.Equal(status.Uncommitted, want) {
				t.Errorf("unsaved: %+v", status)
			}
			_, kept := b.keep()
			folder := ""
			for _, r := range kept {
				folder += r.Folder
			}
			if text, err := os.ReadFile(filepath.Join(folder, "files/sub/work")); err != nil || string(text) != "nowhere else\n" {
				t.Errorf("the repository is not in %q: %v", folder, err)
			}
			head := "files/sub/.git/HEAD"
			if test.file {
				head = "git/modules/sub/HEAD"
			}
			if _, err := os.Stat(filepath.Join(folder, head)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A rule that is new hides no work from a removal, committed or not.
func TestKeepOfWhatANewRuleIgnores(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	write(t, filepath.Join(b.work.Path, ".gitignore"), "*\n")
	b.inside.Git("add", "-f", ".gitignore")
	b.inside.Git("commit", "-q", "-m", "ignores all")
	b.importIt()
	write(t, filepath.Join(b.work.Path, "new"), "nowhere else\n")
	write(t, filepath.Join(b.work.Path, "made/x"), "nor this\n")
	if status := b.unsaved(); !slices.Equal(status.Uncommitted, []string{"made/", "new"}) {
		t.Errorf("unsaved: %+v", status)
	}
	_, kept := b.keep()
	folder := ""
	for _, r := range kept {
		folder += r.Folder
	}
	for _, name := range []string{"new", "made/x"} {
		if _, err := os.Stat(filepath.Join(folder, "files", name)); err != nil {
			t.Error(err)
		}
	}
}

// What git on the host can't read within its bounds is kept as the folder that it is in: no file
// from inside keeps a sandbox from being removed, or takes the host's memory.
func TestKeepOfFilesThatGitCannotRead(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Commit("c", "three\n")
	tip := b.inside.Git("rev-parse", "HEAD")
	write(t, filepath.Join(b.work.Path, "new"), "nowhere else\n")
	write(t, filepath.Join(b.work.Path, ".gitignore"), "")
	must(t, os.Truncate(filepath.Join(b.work.Path, ".gitignore"), 8<<30)) // takes no place on the disk
	if status, err := Unsaved(t.Context(), b.work, b.scratch); err == nil {
		t.Errorf("a .gitignore of 8 GiB was read: %+v", status)
	}
	refs, kept := b.keep()
	if refs["work"] != tip {
		t.Errorf("kept %+v, want %s", refs, tip)
	}
	folder := ""
	for _, r := range kept {
		folder += r.Folder
	}
	if text, err := os.ReadFile(filepath.Join(folder, "tree/new")); err != nil || string(text) != "nowhere else\n" {
		t.Errorf("the files are not in %q: %v", folder, err)
	}
}

// Refs without number don't keep a sandbox from being removed: the metadata is kept as it is.
func TestKeepOfManyRefs(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	commit := b.inside.Commit("c", "three\n")
	b.inside.Git("reset", "-q", "--hard", b.work.Base)
	for i := range maxKept + 1 {
		write(t, b.path("refs/heads", fmt.Sprint("x", i)), commit+"\n")
	}
	refs, kept := b.keep()
	folder := ""
	for _, r := range kept {
		folder += r.Folder
	}
	if _, err := os.Stat(filepath.Join(folder, "git/refs/heads/x7")); err != nil || len(refs) > 1 {
		t.Errorf("kept %d refs, and in %q: %v", len(refs), folder, err)
	}
}

// A commit that no working folder could hold is kept with the metadata, and doesn't come to the
// host.
func TestKeepOfBillionsOfFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	write(t, filepath.Join(b.work.Path, "new"), "nowhere else\n")
	planted := b.commitOfBillions()
	refs, kept := b.keep()
	if b.has(planted) || b.host.Git("show", refs["work"]+":new") != "nowhere else" {
		t.Errorf("kept %+v, %+v", refs, kept)
	}
}

// TestKeepEnds: objects that take git days have the repository inside kept as it is, and a removal
// with force goes on.
func TestKeepEnds(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	b.inside.Commit("c", "three\n")
	tip := b.inside.Git("rev-parse", "HEAD")
	i, err := openImport(t.Context(), Open, b.work, b.scratch)
	must(t, err)
	k := newKeeping(i, "box", time.Now().UTC().Add(-2*keepPatience).Truncate(time.Second))
	must(t, i.quarantine())
	must(t, k.run(t.Context()))
	if text, err := os.ReadFile(filepath.Join(k.aside(), "git", "refs/heads", b.work.Repository.Head)); err != nil || strings.TrimSpace(string(text)) != tip {
		t.Errorf("kept: %q, %v, want %s", text, err, tip)
	}
	must(t, i.close())
}
