package clone_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"forage"
	"forage/internal/testgit"
	"forage/internal/workspace"
	"forage/internal/workspace/clone"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/workspacetest"
)

// site is somebody who clones, and the folders of Forage.
type site struct {
	*workspacetest.User
	places workspace.Places
}

func newSite(t *testing.T) site {
	t.Helper()
	base := workspacetest.Dir(t)
	return site{workspacetest.NewUser(t), workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))}
}

func (s site) provider() clone.Provider {
	return clone.Provider{Places: s.places, Environ: []string{"HOME=" + s.Home}}
}

func (s site) plan(source, branch string) (forage.Workspace, error) {
	return s.provider().Plan(s.Context(), workspace.Request{
		Sandbox: "box", Name: workspace.Main, Path: source, Branch: branch, Target: forage.WorkspacePath, Places: s.places,
	})
}

// make plans and makes, and returns somebody inside.
func (s site) make(source string) *workspacetest.Inside {
	s.Helper()
	w, err := s.plan(source, "")
	if err != nil {
		s.Fatal(err)
	}
	if err := s.provider().Create(s.Context(), w); err != nil {
		s.Fatal(err)
	}
	return workspacetest.NewInside(s.User, w)
}

func TestALocalSourceIsNotChangedAndLendsItsObjects(t *testing.T) {
	s := newSite(t)
	repo := s.Repository(filepath.Join(workspacetest.Dir(t), "repo"))
	before := s.Must(repo, "find", ".", "-newermt", "1970-01-01", "-printf", "%p %T@ %s\n")
	t.Chdir(repo) // as who says --clone .
	inside := s.make(repo)
	inside.Commit("new.txt", "x\n")
	if _, err := s.provider().Update(t.Context(), inside.Work); err != nil {
		t.Fatal(err)
	}
	if after := s.Must(repo, "find", ".", "-newermt", "1970-01-01", "-printf", "%p %T@ %s\n"); after != before {
		t.Errorf("the source changed:\n%s\n%s", before, after)
	}
	if got := inside.Run("git rev-parse origin/main"); got != s.Git(repo, "rev-parse", "main") {
		t.Errorf("origin/main inside is %s", got)
	}
	if got := s.Must(inside.Work.Repository.Store, "find", "objects", "-name", "*.pack"); got != "" {
		t.Errorf("objects were copied: %s", got)
	}
	s.Git(repo, "fetch", "-q", inside.Work.Repository.Store, "forage-box")
	if got := s.Git(repo, "show", "FETCH_HEAD:new.txt"); got != "x" {
		t.Errorf("fetched %q", got)
	}
	s.Git(repo, "merge", "-q", "--ff-only", "FETCH_HEAD")
	if status, err := s.provider().Status(t.Context(), inside.Work); err != nil || status.Unsaved() {
		t.Errorf("after the source has the commits: %+v (%v)", status, err)
	}
}

func TestFromAURL(t *testing.T) {
	t.Parallel()
	server := testgit.NewServer(t)
	server.Password = "secret"
	origin := server.Repo(t, "owner/repo.git")
	http := httptest.NewServer(server)
	t.Cleanup(http.Close)
	s := newSite(t)
	url := http.URL + "/owner/repo.git"
	if _, err := s.plan(url, ""); err == nil {
		t.Error("a repository that asks for a password was planned without one")
	}
	s.Write(s.Home, ".gitconfig", "[credential]\n\thelper = \"!f() { echo username=x; echo password=secret; }; f\"\n")
	inside := s.make(url)
	if got, want := inside.Run("git rev-parse HEAD origin/main"), origin.Git("rev-parse", "main", "main"); got != want {
		t.Errorf("inside is %q, want %q", got, want)
	}
	inside.Commit("new.txt", "x\n")
	if _, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveSaved); forage.ExitCode(err) != 7 {
		t.Fatalf("removed with a commit that is nowhere else: %v", err)
	}
	tip := s.Git(inside.Work.Path, "rev-parse", "forage-box")
	s.Git(inside.Work.Path, "push", "-q", url, "forage-box:pushed")
	if _, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveSaved); err != nil {
		t.Errorf("the commit %s was pushed, and yet: %v", tip, err)
	}
}

// TestARemoteThatDoesNotAnswerIsNotWaitedFor: a clone can be removed when where it is from is there
// and says nothing.
func TestARemoteThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	server := testgit.NewServer(t)
	server.Repo(t, "repo.git")
	var mute atomic.Bool
	ended := make(chan struct{})
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mute.Load() {
			server.ServeHTTP(w, r)
			return
		}
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	defer remote.Close()
	defer close(ended)
	s := newSite(t)
	inside := s.make(remote.URL + "/repo.git")
	inside.Commit("new.txt", "x\n")
	mute.Store(true)
	defer func(before time.Duration) { *clone.AskPatience = before }(*clone.AskPatience)
	*clone.AskPatience = time.Second
	removed := make(chan error, 1)
	go func() {
		_, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveSaved)
		removed <- err
	}()
	select {
	case err := <-removed:
		if forage.ExitCode(err) != 7 {
			t.Errorf("whether the commit was pushed is not known, and yet: %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the remote is waited for")
	}
	if kept, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveForced); err != nil || len(kept) == 0 {
		t.Errorf("kept %v (%v)", kept, err)
	}
}

func TestUnsafeAddressesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ran := filepath.Join(workspacetest.Dir(t), "ran")
	for address, exit := range map[string]int{
		"ext::sh -c 'touch " + ran + "'": 7,
		"ext::touch% " + ran:             7,
		"ext::touch% " + ran + "% [::1]": 7,
		"https:ssh://example.invalid/x":  7,
		"-oProxyCommand=touch:x":         7,
		"gopher://example.invalid/x":     7,
		"https://user:secret@127.0.0.1/": 64,
	} {
		_, err := s.plan(address, "")
		if forage.ExitCode(err) != exit {
			t.Errorf("%s: %v, want exit code %d", address, err, exit)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in the message: %v", err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a command was executed")
	}
}

func TestKeptWorkIsInTheClonesOwnRepository(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	repo := s.Repository(filepath.Join(workspacetest.Dir(t), "repo"))
	inside := s.make(repo)
	inside.Commit("new.txt", "x\n")
	kept, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveForced)
	if err != nil || len(kept) == 0 {
		t.Fatalf("kept %v (%v)", kept, err)
	}
	for _, k := range kept {
		if k.Folder != "" { // the metadata
			continue
		}
		s.Git(repo, "fetch", "-q", k.Store, k.Ref)
		if k.Made.IsZero() || !workspace.IsKept(k.Store) {
			t.Errorf("kept as %+v", k)
		}
	}
	if got := s.Git(repo, "for-each-ref", "refs/forage"); got != "" {
		t.Errorf("the source has refs of ours: %s", got)
	}
	if _, err := os.Lstat(inside.Work.Path); err == nil {
		t.Error("the working folder is still there")
	}
	again, err := s.plan(repo, "")
	if err != nil || again.Path != inside.Work.Path {
		t.Errorf("another of the same name: %v", err)
	}
}

// TestAKilledRemovalIsFinished: what is half gone is not taken for work, and what is to be kept is.
func TestAKilledRemovalIsFinished(t *testing.T) {
	t.Parallel()
	for _, aside := range []string{"", filepath.Join(workspacetest.Dir(t), "kept.git")} {
		s := newSite(t)
		w := s.make(s.Repository(filepath.Join(workspacetest.Dir(t), "repo"))).Work
		if err := gitrepo.BeginRemoval(*w.Repository, gitrepo.Removal{Aside: aside}); err != nil {
			t.Fatal(err)
		}
		if aside == "" {
			s.Must("/", "rm", w.Repository.Store+"/HEAD")
		}
		s.Must("/", "rm", w.Path+"/.git", w.Path+"/file.txt")
		kept, err := s.provider().Remove(t.Context(), w, workspace.RemoveForced)
		if err != nil || len(kept) > 0 {
			t.Errorf("kept %v, %v", kept, err)
		}
		for _, path := range []string{w.Path, w.Repository.Dir, w.Repository.Store} {
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", path, err)
			}
		}
		if aside != "" {
			s.Must(aside, "git", "fsck", "--strict")
		}
	}
}
