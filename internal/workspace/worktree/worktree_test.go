package worktree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/workspacetest"
	"forage/internal/workspace/worktree"
)

// site is a user's repository and the folders of Forage.
type site struct {
	*workspacetest.User
	repo   string
	places workspace.Places
}

func newSite(t *testing.T) site {
	t.Helper()
	u := workspacetest.NewUser(t)
	base := workspacetest.Dir(t)
	return site{u, u.Repository(filepath.Join(workspacetest.Dir(t), "repo")), workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))}
}

func (s site) request(name string) workspace.Request {
	return workspace.Request{
		Sandbox: name, Name: workspace.Main, Path: s.repo, Target: forage.WorkspacePath, Places: s.places,
		Ours: []string{filepath.Dir(s.places.Trees)},
	}
}

func (s site) provider() worktree.Provider { return worktree.Provider{Places: s.places} }

// make plans and makes a worktree.
func (s site) make(request workspace.Request) forage.Workspace {
	s.Helper()
	w, err := s.provider().Plan(s.Context(), request)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.provider().Create(s.Context(), w); err != nil {
		s.Fatal(err)
	}
	return w
}

func TestTheHostsWorktreeIsWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.make(s.request("one"))
	if got := s.Git(w.Path, "status", "--porcelain", "--branch"); got != "## forage-one" {
		t.Errorf("status in the worktree: %q", got)
	}
	if got := s.Git(s.repo, "worktree", "list", "--porcelain"); !strings.Contains(got, "worktree "+w.Path+"\n") {
		t.Errorf("git worktree list has no %s:\n%s", w.Path, got)
	}
	if out, err := s.Try(s.repo, "git", "worktree", "remove", w.Path); err == nil || !strings.Contains(out, "forage-ctl down") {
		t.Errorf("git worktree remove did not say what to do instead: %v\n%s", err, out)
	}
	s.Git(s.repo, "worktree", "prune", "--expire", "now")
	s.Commit(w.Path, "b.txt", "two\n")
	s.Git(w.Path, "fsck", "--strict")
	if entries, _ := os.ReadDir(s.places.Scratch); len(entries) > 0 {
		t.Errorf("left in the scratch folder: %v", entries)
	}
}

// TestTheFirstStatusInsideHasNothingToDo: git would write the index anew if any of the times and
// numbers in it were not those of the files.
func TestTheFirstStatusInsideHasNothingToDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.make(s.request("one"))
	status := func() { // not in a namespace: in those of this test, owners are others than in a sandbox
		s.Must(w.Path, "env", "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(s.repo, ".git/objects"),
			"git", "--git-dir="+filepath.Join(w.Repository.Dir, "git"), "--work-tree="+w.Path, "status")
	}
	index := func() string {
		text, err := os.ReadFile(filepath.Join(w.Repository.Dir, "git/index"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := index()
	if status(); index() != before {
		t.Error("the index was written anew")
	}
	s.Must("/", "touch", "-d", "2001-02-03", filepath.Join(w.Path, "file.txt"))
	if status(); index() == before {
		t.Error("git does not write the index anew when times differ: this test tests nothing")
	}
}

func TestWhereItStarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Git(s.repo, "checkout", "-q", "-b", "feature")
	s.Commit(s.repo, "feature.txt", "x\n")
	feature := s.Git(s.repo, "rev-parse", "HEAD")
	s.Git(s.repo, "checkout", "-q", "main")
	for _, test := range []struct {
		branch, want string
		exit         int
	}{
		{"", s.Git(s.repo, "rev-parse", "main"), 0},
		{"feature", feature, 0},
		{"feature~1", s.Git(s.repo, "rev-parse", "main"), 0},
		{feature[:12], feature, 0},
		{"absent", "", 64},
		{"--all", "", 64},
		{"feature:feature.txt", "", 64},
	} {
		request := s.request("one")
		request.Branch = test.branch
		w, err := s.provider().Plan(t.Context(), request)
		if forage.ExitCode(err) != test.exit || w.Base != test.want {
			t.Errorf("from %q: base %s (%v), want %s and exit code %d", test.branch, w.Base, err, test.want, test.exit)
		}
	}
}

func TestWhatIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(s site){
		"branch":           func(s site) { s.Git(s.repo, "branch", "forage-one") },
		"branch below":     func(s site) { s.Git(s.repo, "branch", "forage-one/x") },
		"packed branch":    func(s site) { s.Git(s.repo, "branch", "forage-one"); s.Git(s.repo, "pack-refs", "--all") },
		"folder":           func(s site) { s.Write(s.places.Trees, "one/file", "x") },
		"private metadata": func(s site) { s.Write(s.places.Repositories, "one/main/git/HEAD", "x") },
		"worktree":         func(s site) { s.Write(s.repo, ".git/worktrees/forage-one/gitdir", "/elsewhere/.git\n") },
		"same sandbox":     func(s site) { s.make(s.request("one")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			take(s)
			before := s.Git(s.repo, "for-each-ref")
			if _, err := s.provider().Plan(t.Context(), s.request("one")); forage.ExitCode(err) != 7 || forage.Hint(err) == "" {
				t.Errorf("planned: %v (hint %q), want it refused", err, forage.Hint(err))
			}
			if got := s.Git(s.repo, "for-each-ref"); got != before {
				t.Errorf("the refs changed:\n%s\n%s", before, got)
			}
		})
	}
}

// TestWhatAKillLeft has a creation and a removal end between two of the files that stand for the
// worktree in the repository.
func TestWhatAKillLeft(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.make(s.request("one"))
	admin := filepath.Join(s.repo, ".git/worktrees/forage-one")
	s.Must("/", "mv", admin, admin+".lock")
	s.Must("/", "rm", admin+".lock/gitdir")
	if err := worktree.Begin(w); err != nil {
		t.Fatal(err)
	}
	s.Git(s.repo, "worktree", "prune", "--expire", "now")
	s.Git(s.repo, "worktree", "list")
	if err := s.provider().Create(t.Context(), w); err != nil {
		t.Errorf("creating where a kill has left half of it: %v", err)
	}
	if _, err := s.provider().Remove(t.Context(), w, workspace.RemoveUnused); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(admin)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left of the worktree: %v", err)
	}
}

func TestAnotherPlanOfTheSameSandboxKeepsItsBase(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.make(s.request("one"))
	s.Commit(s.repo, "later.txt", "x\n")
	request := s.request("one")
	request.Existing = &w
	again, err := s.provider().Plan(t.Context(), request)
	if err != nil || again.Base != w.Base {
		t.Errorf("planned again: base %s (%v), want %s", again.Base, err, w.Base)
	}
	s.Git(s.repo, "worktree", "unlock", w.Path)
	s.Git(s.repo, "worktree", "remove", "--force", w.Path)
	if _, err := s.provider().Plan(t.Context(), request); forage.ExitCode(err) != 7 || forage.Hint(err) == "" {
		t.Errorf("planned again after the worktree was removed: %v, want it refused", err)
	}
}

// TestSubmodulesAreNotEntered has somebody inside make a submodule of which the repository's git
// would execute the configuration.
func TestSubmodulesAreNotEntered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	sub := s.Repository(filepath.Join(workspacetest.Dir(t), "sub"))
	s.Git(s.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "sub")
	s.Git(s.repo, "commit", "-q", "-m", "sub")
	w := s.make(s.request("one"))
	workspacetest.NewInside(s.User, w).Run(`
		git init -q sub && git -C sub commit -q --allow-empty -m x
		git -C sub config core.fsmonitor "echo ran >>$PWD/ran; false"`)
	for _, args := range [][]string{{"status"}, {"diff"}, {"add", "-A"}, {"commit", "-q", "-a", "--allow-empty", "-m", "x"}, {"stash"}} {
		_, _ = s.Try(w.Path, append([]string{"git"}, args...)...)
		if _, err := os.Stat(filepath.Join(w.Path, "ran")); err == nil {
			t.Fatalf("git %v executed what came from inside", args)
		}
	}
	if got := workspacetest.NewInside(s.User, w).Run("git ls-files -v sub"); got != "H sub" {
		t.Errorf("inside, the submodule is marked: %q", got)
	}
}

// TestUnusedAfterAnImport: what a fork has brought to the branch before it was killed keeps nothing
// from being removed.
func TestUnusedAfterAnImport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.make(s.request("one"))
	workspacetest.NewInside(s.User, w).Commit("new.txt", "x\n")
	if _, err := s.provider().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, err := s.provider().Remove(t.Context(), w, workspace.RemoveUnused); err != nil {
		t.Error(err)
	}
	if out := s.Git(s.repo, "branch", "--list", "forage-one"); out != "" {
		t.Errorf("the branch is left: %s", out)
	}
}
