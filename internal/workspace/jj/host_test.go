package jj_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jj"
	"forage/internal/workspace/workspacetest"
)

// box is a workspace of a jj repository.
type box struct {
	*workspacetest.User
	jj.Provider
	repo string
	work forage.Workspace
}

func newBox(t *testing.T, args ...string) *box {
	u := workspacetest.NewUser(t)
	return boxOn(u, u.JJ(filepath.Join(workspacetest.Dir(t), "repo"), append([]string{"--no-colocate"}, args...)...), "box")
}

func boxOn(u *workspacetest.User, repo, name string) *box {
	u.Helper()
	base := workspacetest.Dir(u)
	b := &box{User: u, repo: repo}
	b.Places = workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))
	var err error
	b.work, err = b.Plan(u.Context(), workspace.Request{
		Sandbox: name, Name: workspace.Main, Path: repo, Target: "/workspace", Home: u.Home, Places: b.Places,
	})
	if err == nil {
		err = b.Create(u.Context(), b.work)
	}
	if err != nil {
		u.Fatal(err)
	}
	return b
}

func (b *box) inside() *workspacetest.Inside { return workspacetest.NewInside(b.User, b.work) }

// jj runs jj on the host and returns what it wrote.
func (b *box) jj(args ...string) string {
	b.Helper()
	return b.Must(b.repo, append([]string{"jj", "--color=never"}, args...)...)
}

func (b *box) update() workspace.Update {
	b.Helper()
	u, err := b.Update(b.Context(), b.work)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// tip is what git shows of the commit that was brought, which jj doesn't show before it is applied.
func (b *box) tip(format string) string {
	b.Helper()
	return b.Git(b.work.Repository.Store, "--git-dir=.", "log", "-1", "--format="+format, gitrepo.TipRef(b.work))
}

// user is all that jj shows the user, but for the sandbox's own workspace.
func (b *box) user() string {
	b.Helper()
	return b.jj("log", "--no-graph", "-r", "all()", "-T", `commit_id ++ " " ++ local_bookmarks ++ " " ++ working_copies ++ "\n"`) + b.jj("bookmark", "list", "-a")
}

const ids = `change_id.short() ++ " " ++ description.first_line() ++ "\n"`

func TestUserSeesWork(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--no-colocate", "--colocate"} {
		t.Run(arg, func(t *testing.T) {
			u := workspacetest.NewUser(t)
			b := boxOn(u, u.JJ(filepath.Join(workspacetest.Dir(t), "repo"), arg), "box")
			i := b.inside()
			i.Commit("new.txt", "from inside\n")
			inside := i.Run("jj log --no-graph -r @- -T '" + ids + "'")
			before := b.user()
			b.update()
			if after := b.user(); after != before {
				t.Errorf("before it is applied the user sees\n%s\nand saw\n%s", after, before)
			}
			b.Git(b.work.Repository.Store, "--git-dir=.", "branch", "taken", gitrepo.TipRef(b.work))
			b.jj("git", "import")
			if got := b.jj("log", "--no-graph", "-r", "taken", "-T", ids); got != inside {
				t.Errorf("the user's log has\n%s\ninside there is\n%s", got, inside)
			}
			if out := b.jj("status"); strings.Contains(out, "stale") || !strings.Contains(out, "no changes") {
				t.Errorf("in the user's own folder jj status shows\n%s", out)
			}
			out := b.Must(b.work.Path, "jj", "--color=never", "status")
			if !strings.Contains(out, "A new.txt") || strings.Contains(out, "stale") {
				t.Errorf("in the sandbox's folder jj status shows\n%s", out)
			}
			i.Run("jj st && jj new && jj undo") // what the host noted is no business of the sandbox's
		})
	}
}

// TestNoBookmark starts from a commit that no bookmark leads to.
func TestNoBookmark(t *testing.T) {
	t.Parallel()
	u := workspacetest.NewUser(t)
	repo := u.JJ(filepath.Join(workspacetest.Dir(t), "repo"), "--no-colocate")
	u.Must(repo, "jj", "commit", "-m", "without a bookmark")
	b := boxOn(u, repo, "box")
	i := b.inside()
	i.Commit("new.txt", "from inside\n")
	got := i.Run("jj bookmark list -a && jj git import && jj log --no-graph -r '::@' -T 'description'")
	if strings.Contains(got, "forage") || !strings.HasSuffix(got, "agent: new.txt\nwithout a bookmark\nfirst") {
		t.Errorf("inside there is\n%s", got)
	}
	b.update()
	if got := b.Git(b.work.Repository.Store, "--git-dir=.", "log", "-1", "--format=%s", gitrepo.TipRef(b.work)+"^"); got != "without a bookmark" {
		t.Errorf("the tip's parent is %q", got)
	}
}

// TestRewrites has commits brought that are rewritten inside later, on which the user's git already has a branch. Nothing of
// the user's moves.
func TestRewrites(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	i := b.inside()
	i.Run("echo 0 >new.txt && jj describe -m 'version 0'")
	b.update()
	b.Git(b.work.Repository.Store, "--git-dir=.", "branch", "taken", gitrepo.TipRef(b.work))
	b.jj("git", "import")
	b.jj("new", "taken", "-m", "the user's, on top")
	before := b.user()
	for n := range 3 {
		i.Run(fmt.Sprintf("echo %d >new.txt && jj describe -m 'version %d'", n+1, n+1))
		b.update()
	}
	b.jj("git", "import")
	if after := b.user(); after != before {
		t.Errorf("the user sees\n%s\nand saw\n%s", after, before)
	}
	if got := b.tip("%s"); got != "version 3" {
		t.Errorf("brought is %q", got)
	}
	if out := b.jj("status"); strings.Contains(out, "stale") {
		t.Errorf("the user's working copy is stale:\n%s", out)
	}
}

// TestSideBySide has operations that jj has not merged yet: the work of all of them is found.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	i := b.inside()
	i.Commit("one.txt", "1\n")
	i.Run("jj new -m 'left' && echo left >left.txt && jj status && jj --at-op @- new main -m 'right' && ls .jj/repo/op_heads/heads | wc -l | grep 2")
	b.update()
	status, err := b.Status(t.Context(), b.work)
	if err != nil || status.Problem != "" || len(status.Elsewhere)+status.CommitsCount < 3 {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	u := workspacetest.NewUser(t)
	dir := workspacetest.Dir(t)
	u.Git(dir, "init", "-q", "--bare", "-b", "main", "remote.git")
	repo := u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
	u.Must(repo, "jj", "git", "remote", "add", "origin", filepath.Join(dir, "remote.git"))
	u.Must(repo, "jj", "git", "push", "--bookmark", "main")
	b := boxOn(u, repo, "box")
	i := b.inside()
	i.Commit("new.txt", "from inside\n")
	i.Run("jj bookmark set main -r @- && jj git push") // jj git fetch needs a git of at least 2.41
	if got := u.Git(dir, "--git-dir=remote.git", "log", "-1", "--format=%s", "main"); got != "agent: new.txt" {
		t.Errorf("the remote's main is %q", got)
	}
}

// TestNothingRuns plants programs in the user's repository, wherever git or jj might look for some.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	marker := filepath.Join(workspacetest.Dir(t), "ran")
	program := filepath.Join(workspacetest.Dir(t), "program")
	b.Write(filepath.Dir(program), "program", "#!/bin/sh\necho \"$0 $*\" >>"+marker+"\nexec cat\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	toml := fmt.Sprintf("[signing]\nbehavior = \"own\"\nbackend = \"ssh\"\nkey = \"x\"\n[signing.backends.ssh]\nprogram = %[1]q\n[ui]\neditor = %[1]q\npager = %[1]q\ndiff-formatter = [%[1]q]\n"+
		"[git]\nexecutable-path = %[1]q\nsign-on-push = true\n[fsmonitor]\nbackend = \"watchman\"\n[aliases]\nworkspace = [\"util\", \"exec\", \"--\", %[1]q]\nlog = [\"util\", \"exec\", \"--\", %[1]q]\ngit = [\"util\", \"exec\", \"--\", %[1]q]\n", program)
	ini := fmt.Sprintf("[core]\n\tfsmonitor = %[1]s\n\thooksPath = %[2]s\n\tsshCommand = %[1]s\n\tpager = %[1]s\n[filter \"x\"]\n\tclean = %[1]s\n\tsmudge = %[1]s\n\tprocess = %[1]s\n"+
		"[diff]\n\texternal = %[1]s\n[gpg]\n\tprogram = %[1]s\n[commit]\n\tgpgSign = true\n[uploadpack]\n\tpackObjectsHook = %[1]s\n[include]\n\tpath = other\n", program, filepath.Dir(program))
	repo := filepath.Join(b.repo, ".jj/repo")
	for _, file := range []string{"config.toml", "workspace-config.toml"} {
		b.Write(repo, file, toml)
		b.Write(filepath.Join(b.repo, ".jj"), file, toml)
	}
	old, err := os.ReadFile(filepath.Join(repo, "store/git/config"))
	if err != nil {
		t.Fatal(err)
	}
	b.Write(repo, "store/git/config", string(old)+ini)
	b.Write(repo, "store/git/other", strings.ReplaceAll(ini, "path = other", "path = none"))
	for _, hook := range []string{"reference-transaction", "post-checkout", "post-index-change", "pre-commit", "post-rewrite"} {
		b.Write(repo, "store/git/hooks/"+hook, "#!/bin/sh\nexec "+program+"\n")
		if err := os.Chmod(filepath.Join(repo, "store/git/hooks", hook), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(program, filepath.Join(filepath.Dir(program), hook)); err != nil {
			t.Fatal(err)
		}
	}
	b.Write(repo, "store/git/info/attributes", "* filter=x diff=x\n")

	said, _ := b.Try(filepath.Join(repo, "store/git"), "git", "--git-dir=.", "update-ref", "refs/heads/trap", b.work.Base)
	if err := os.Remove(marker); err != nil {
		t.Fatalf("plain git does not run what is planted: %v\n%s", err, said)
	}
	second := boxOn(b.User, b.repo, "second")
	i := second.inside()
	i.Run("echo '* filter=x' >.gitattributes")
	i.Commit("new.txt", "from inside\n")
	i.Run("echo more >>new.txt")
	second.update()
	if status, err := second.Status(t.Context(), second.work); err != nil || !status.Unsaved() {
		t.Errorf("status: %+v, %v", status, err)
	}
	if _, err := second.Remove(t.Context(), second.work, workspace.RemoveForced); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(marker); err == nil {
		t.Errorf("this ran:\n%s", text)
	}
}
