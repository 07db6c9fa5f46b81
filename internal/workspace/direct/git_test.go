package direct_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/workspacetest"
)

// site is a user's folder and the folders of Forage.
type site struct {
	*workspacetest.User
	places workspace.Places
}

func newSite(t *testing.T) site {
	t.Helper()
	u := workspacetest.NewUser(t)
	base := workspacetest.Dir(t)
	return site{u, workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))}
}

func (s site) provider() direct.Provider { return direct.Provider{Places: s.places} }

func (s site) plan(path string) (forage.Workspace, error) {
	return s.provider().Plan(s.Context(), workspace.Request{
		Sandbox: "box", Name: workspace.Main, Path: path, Target: forage.WorkspacePath, Home: "/nonexistent", Places: s.places,
	})
}

// make plans and makes, and returns somebody inside.
func (s site) make(path string) *workspacetest.Inside {
	s.Helper()
	w, err := s.plan(path)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.provider().Create(s.Context(), w); err != nil {
		s.Fatal(err)
	}
	return workspacetest.NewInside(s.User, w)
}

// superproject has one submodule that is populated, in it another, and one that isn't populated.
func (s site) superproject() string {
	dir := workspacetest.Dir(s)
	inner := s.Repository(filepath.Join(dir, "inner"))
	middle := s.Repository(filepath.Join(dir, "middle"))
	s.Git(middle, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "deep/inner")
	s.Git(middle, "commit", "-q", "-m", "inner")
	repo := s.Repository(filepath.Join(dir, "repo"))
	for _, at := range []string{"libs/middle", "libs/empty"} {
		s.Git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", middle, at)
	}
	s.Git(repo, "commit", "-q", "-m", "submodules")
	s.Git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive", "libs/middle")
	s.Git(repo, "submodule", "--quiet", "deinit", "-f", "libs/empty")
	return repo
}

func TestSubmodulesWorkInside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	inside := s.make(s.superproject())
	if got := inside.Run("git status --porcelain && git -C libs/middle status --porcelain && git -C libs/middle/deep/inner status --porcelain"); got != "" {
		t.Errorf("nothing was changed, and git says %q", got)
	}
	inside.Run("cd libs/middle/deep/inner && echo x >new && git add new && git commit -q -m inside && git fsck --strict")
	status, err := s.provider().Status(t.Context(), inside.Work)
	if err != nil || !status.Unsaved() {
		t.Errorf("a commit in a submodule is not unsaved: %+v (%v)", status, err)
	}
	if _, err := s.provider().Update(t.Context(), inside.Work); err != nil {
		t.Fatal(err)
	}
	if got := s.Git(filepath.Join(inside.Work.Path, "libs/middle/deep/inner"), "log", "-1", "--format=%s", "forage-box"); got != "inside" {
		t.Errorf("the submodule's commit came out as %q", got)
	}
	status, err = s.provider().Status(t.Context(), inside.Work)
	if err != nil || !slices.Equal(status.Submodules, []string{"libs/middle/deep/inner"}) || status.InSubmodules != 1 || status.CommitsCount != 1 {
		t.Errorf("it is not said in which submodule it is: %+v (%v)", status, err)
	}
}

// TestSubmodulesAreNoWayOut has somebody inside put metadata that names programs wherever the
// user's git looks for that of a submodule.
func TestSubmodulesAreNoWayOut(t *testing.T) {
	t.Parallel()
	plant := `
		ran=$PWD/ran
		trap_in() { mkdir -p "$1/objects" "$1/refs" && echo 'ref: refs/heads/main' >"$1/HEAD" &&
			printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "echo ran >>%s; false"\n\tworktree = %s\n' "$ran" "$2" >"$1/config"; }
		trap_in "$PWD/evil" "$PWD"
	`
	made := newSite(t).superproject()
	for name, attack := range map[string]string{
		"new pointer":               `echo "gitdir: $PWD/evil" >libs/middle/.git`,
		"pointer replaced":          `rm -f libs/middle/.git; ln -sf "$PWD/evil" libs/middle/.git`,
		"pointer moved away":        `mv libs/middle/.git libs/middle/old; trap_in libs/middle/.git "$PWD/libs/middle"`,
		"folder moved away":         `mv libs/middle libs/old; mkdir libs/middle; trap_in libs/middle/.git "$PWD/libs/middle"`,
		"parent moved away":         `mv libs old; mkdir -p libs/middle; trap_in libs/middle/.git "$PWD/libs/middle"`,
		"nested pointer":            `echo "gitdir: $PWD/evil" >libs/middle/deep/inner/.git`,
		"nested parent moved away":  `cd libs/middle; mv deep old; mkdir -p deep/inner; trap_in deep/inner/.git "$PWD/deep/inner"`,
		"into an empty one":         `trap_in libs/empty/.git "$PWD/libs/empty"`,
		"pointer in an empty one":   `echo "gitdir: $PWD/evil" >libs/empty/.git`,
		"empty one moved away":      `mv libs/empty libs/old; mkdir libs/empty; trap_in libs/empty/.git "$PWD/libs/empty"`,
		"empty one removed":         `rmdir libs/empty; mkdir libs/empty; trap_in libs/empty/.git "$PWD/libs/empty"`,
		"configuration of its own":  `git -C libs/middle config core.fsmonitor "echo ran >>$ran; false"`,
		"configuration of the root": `git config core.fsmonitor "echo ran >>$ran; false"; git config core.hooksPath "$PWD/evil"`,
		"umount":                    `umount libs/middle/.git; umount libs/middle; true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			repo := filepath.Join(workspacetest.Dir(t), "repo")
			s.Must("/", "cp", "-a", made, repo)
			inside := s.make(repo)
			out, _ := inside.Try(plant + attack) // it may fail
			root := inside.Work.Path
			for _, dir := range []string{root, filepath.Join(root, "libs/middle"), filepath.Join(root, "libs/middle/deep/inner")} {
				if got, err := s.Try(dir, "git", "status", "--porcelain"); err != nil {
					t.Logf("git status in %s: %v\n%s\ninside: %s", dir, err, got, out)
				}
			}
			_, _ = s.Try(root, "git", "submodule", "status", "--recursive")
			_, _ = s.Try(root, "git", "diff", "--submodule=log", "HEAD")
			if text, err := os.ReadFile(filepath.Join(root, "ran")); err == nil && name != "umount" {
				t.Errorf("executed on the host: %s\ninside: %s", text, out)
			}
		})
	}
}

func TestGitFoldersAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	repo := s.superproject()
	bare := filepath.Join(workspacetest.Dir(t), "bare.git")
	s.Git(repo, "clone", "-q", "--bare", repo, bare)
	linked := s.Repository(filepath.Join(workspacetest.Dir(t), "linked"))
	elsewhere := filepath.Join(workspacetest.Dir(t), "elsewhere")
	if err := os.Rename(filepath.Join(linked, ".git"), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(linked, ".git")); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(workspacetest.Dir(t), "empty")
	missing := s.superproject()
	if err := os.MkdirAll(filepath.Join(empty, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(missing, "libs/empty")); err != nil {
		t.Fatal(err)
	}
	partial := s.superproject() // which is not worked with; but the user's git does
	s.Git(partial, "config", "remote.origin.promisor", "true")
	for path, exit := range map[string]int{
		filepath.Join(partial, "libs"): 7, filepath.Join(partial, "docs"): 0, partial: 6,
		filepath.Join(repo, ".git"): 7, filepath.Join(repo, ".git/hooks"): 7, filepath.Join(repo, ".git/modules/libs/middle"): 7, bare: 7,
		filepath.Join(repo, "libs"): 7, filepath.Join(repo, "docs"): 0, filepath.Join(repo, "libs/middle"): 0, repo: 0,
		linked: 6, empty: 7, missing: 6,
	} {
		_, err := s.plan(path)
		if forage.ExitCode(err) != exit || exit != 0 && forage.Hint(err) == "" {
			t.Errorf("%s: %v (hint %q), want exit code %d", strings.TrimPrefix(path, repo), err, forage.Hint(err), exit)
		}
	}
}

func TestAnotherPlanOfTheSameSandboxKeepsItsBase(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	repo := s.Repository(filepath.Join(workspacetest.Dir(t), "repo"))
	inside := s.make(repo)
	s.Git(repo, "checkout", "-q", "-b", "another")
	s.Commit(repo, "later.txt", "later\n")
	again, err := s.provider().Plan(t.Context(), workspace.Request{
		Sandbox: "box", Name: workspace.Main, Path: repo, Target: forage.WorkspacePath, Home: "/nonexistent", Places: s.places,
		Existing: &inside.Work,
	})
	if err != nil || again.Base != inside.Work.Base || again.Repository.Head != inside.Work.Repository.Head {
		t.Errorf("planned again: %+v (%v), before: %+v", again, err, inside.Work)
	}
}

// What is only staged is in the index inside alone, also where the files are the user's own. What
// the user had staged is the user's.
func TestStagedContentIsWork(t *testing.T) {
	s := newSite(t)
	repo := s.Repository(filepath.Join(workspacetest.Dir(t), "repo"))
	stage := "printf 'staged by %s' $0 >$1 && git add $1 && echo later >$1"
	s.Must(repo, "sh", "-c", stage, "the-user", "mine")
	inside := s.make(repo)
	if status, err := s.provider().Status(t.Context(), inside.Work); err != nil || status.Unsaved() {
		t.Errorf("nothing was done inside: %+v (%v)", status, err)
	}
	inside.Run("printf 'staged inside' >theirs && git add theirs && echo later >theirs")
	status, err := s.provider().Status(t.Context(), inside.Work)
	if err != nil || !slices.Equal(status.Uncommitted, []string{"theirs"}) || status.UncommittedCount != 1 {
		t.Errorf("status: %+v (%v)", status, err)
	}
	if _, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveSaved); err == nil {
		t.Fatal("what is only staged was lost")
	}
	kept, err := s.provider().Remove(t.Context(), inside.Work, workspace.RemoveForced)
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %+v (%v)", kept, err)
	}
	if got := s.Git(repo, "--git-dir="+filepath.Join(kept[0].Folder, "git"), "show", ":theirs"); !strings.HasSuffix(got, "staged inside") {
		t.Errorf("kept is %q", got)
	}
}
