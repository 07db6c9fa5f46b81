package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/store"
	"forage/internal/testdir"
	"forage/internal/testgit"
)

// withRepository makes HOME/project/work a repository with one commit.
func (d *desk) withRepository() *testgit.Repo {
	repository := testgit.Init(d.t, filepath.Join(d.home, "project"))
	repository.Commit("file", "text")
	return repository
}

// What a flag asks for is what is planned, and nothing is made.
func TestWorkspaceIsPlanned(t *testing.T) {
	d := newDesk(t)
	repository := d.withRepository()
	for name, test := range map[string]struct {
		opts Options
		want forage.Workspace // without what only its provider knows
	}{
		"the current folder": {Options{}, forage.Workspace{Name: "main", Mode: forage.WorkspaceDirect, Path: "HOME/project", Target: "/workspace"}},
		"a worktree": {Options{GitWorktree: "work"}, forage.Workspace{
			Name: "main", Mode: forage.WorkspaceWorktree, Path: "HOME/state/workspaces/box", Target: "/workspace", Source: "HOME/project/work", Branch: "forage-box",
		}},
		"read only": {Options{GitWorktree: "work", ReadOnly: true}, forage.Workspace{
			Name: "main", Mode: forage.WorkspaceWorktree, Path: "HOME/state/workspaces/box", Target: "/workspace", Source: "HOME/project/work", Branch: "forage-box", ReadOnly: true,
		}},
		"a clone of a URL": {Options{Clone: "file://HOME/project/work"}, forage.Workspace{
			Name: "main", Mode: forage.WorkspaceClone, Path: "HOME/state/workspaces/box", Target: "/workspace", Source: "file://HOME/project/work", Branch: "forage-box",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.Clone = strings.ReplaceAll(test.opts.Clone, "HOME", d.home)
			plan, _, err := d.plan("", test.opts)
			testdir.Must(t, err)
			got := plan.Workspace
			got.Base, got.Repository = "", nil
			for _, path := range []*string{&got.Path, &got.Source} {
				*path = strings.ReplaceAll(*path, d.home, "HOME")
			}
			testdir.Same(t, "", test.want, got)
			for _, mount := range plan.Spec.Mounts {
				if mount.Writable && (Below(mount.Source, repository.Dir) || test.opts.ReadOnly) {
					t.Errorf("%+v is writable", mount)
				}
			}
			for _, made := range []string{"state/workspaces", "state/repositories"} {
				if Exists(filepath.Join(d.home, made)) {
					t.Errorf("planning made %s", made)
				}
			}
			if refs := repository.Git("for-each-ref", "--format=%(refname)"); refs != "refs/heads/main" {
				t.Errorf("planning made refs: %s", refs)
			}
		})
	}
}

// What holds for the folder that is shown holds for the repository that a worktree or clone is made
// of.
func TestSourcesOfWorkspacesAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		config  string
		project string // the repository's .forage.toml
		opts    Options
		kind    error
		want    string // part of the error; "" is none
	}{
		"as it is":                  {opts: Options{GitWorktree: "work"}},
		"two flags":                 {opts: Options{GitWorktree: "work", Clone: "work"}, kind: forage.ErrUsage, want: "--git-worktree and --clone exclude one another"},
		"a flag and -w":             {opts: Options{Workspace: ".", Repo: "work"}, kind: forage.ErrUsage, want: "--workspace and --repo exclude one another"},
		"a branch of a folder":      {opts: Options{Branch: "main"}, kind: forage.ErrUsage, want: "--branch"},
		"forbidden by the user":     {config: "[forbid]\nmounts = ['HOME/project/work']", opts: Options{GitWorktree: "work"}, kind: forage.ErrDenied, want: "showing HOME/project/work inside is forbidden"},
		"its clone":                 {config: "[forbid]\nmounts = ['HOME/project/work']", opts: Options{Clone: "work"}, kind: forage.ErrDenied, want: "is forbidden"},
		"a forbidden flag":          {config: "[forbid]\nflags = ['git-worktree']", opts: Options{GitWorktree: "work"}, kind: forage.ErrDenied, want: "the flag --git-worktree is forbidden"},
		"another flag is forbidden": {config: "[forbid]\nflags = ['clone', 'repo', 'branch']", opts: Options{GitWorktree: "work"}},
		"forbidden by the project":  {project: "[forbid]\nflags = ['branch']", opts: Options{GitWorktree: "work", Branch: "main"}, kind: forage.ErrDenied, want: "the flag --branch is forbidden"},
		"a project that can't":      {project: "network = 'full'", opts: Options{GitWorktree: "work"}, kind: forage.ErrDenied, want: ".forage.toml:1"},
		"a secret in it": {
			config: "[secrets.a]\nfile = 'HOME/project/work/key'\npreset = 'anthropic'\n[templates.own]\nsecrets = ['a']",
			opts:   Options{GitWorktree: "work", Template: "own"}, kind: forage.ErrUsage, want: "HOME/project/work/key is in what the sandbox sees at /workspace",
		},
		"a secret's command in it": {
			config: "[secrets.a]\ncommand = ['HOME/project/work/get']\npreset = 'anthropic'\n[templates.own]\nsecrets = ['a']",
			opts:   Options{Clone: "work", Template: "own"}, kind: forage.ErrUsage, want: "HOME/project/work/get, which the sandbox can change",
		},
		"a link of another sandbox": {opts: Options{GitWorktree: "shared/link"}, kind: forage.ErrRefused, want: "leads out of the workspace of sandbox other"},
		"a mount of its metadata":   {opts: Options{GitWorktree: "work", Mounts: []string{"HOME/project/work/.git:/mnt/git:rw"}}, kind: forage.ErrRefused, want: "could change the repository HOME/project/work/.git"},
		"a mount of what holds it":  {opts: Options{GitWorktree: "work", Mounts: []string{"HOME/project:/mnt/p:rw"}}, kind: forage.ErrRefused, want: "could change the repository"},
		"one that can't be written": {opts: Options{GitWorktree: "work", Mounts: []string{"HOME/project:/mnt/p"}}},
		"its own and mounted": {
			opts: Options{Workspace: "work", Mounts: []string{"HOME/project/work/.git:/mnt/git:rw"}}, kind: forage.ErrRefused, want: "could change the repository",
		},
		"parts of one repository": {
			config: "[templates.own.workspace.mounts.a]\ncontainerPath = '/a'\nrepo = 'HOME/project/work'\n[templates.own.workspace.mounts.b]\ncontainerPath = '/b'\nrepo = 'HOME/project/work'\nmode = 'git-worktree'",
			opts:   Options{Template: "own", Workspace: "shared"},
		},
		"a part in a writable folder around it": {
			config: "[templates.own.workspace.mounts.b]\ncontainerPath = '/b'\nrepo = 'HOME/project/work'\nmode = 'git-worktree'",
			opts:   Options{Template: "own"}, kind: forage.ErrRefused, want: "could change the repository HOME/project/work/.git, which /b is made from, at /workspace",
		},
		"a template's own workspace": {
			config: "[templates.own.workspace.mounts.main]\ncontainerPath = '/workspace'\nrepo = 'HOME/project/work'",
			opts:   Options{Template: "own", GitWorktree: "work"}, kind: forage.ErrUsage, want: "--git-worktree: the template \"own\" has a workspace of its own, its part main",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.withRepository()
			here := strings.NewReplacer("HOME", d.home)
			if test.project != "" {
				d.write("project/work/.forage.toml", test.project)
			}
			d.write("project/shared/x", "")
			testdir.Must(t, os.Symlink("../work", filepath.Join(d.home, "project/shared/link")))
			d.record("other", forage.Workspace{Mode: forage.WorkspaceDirect, Path: filepath.Join(d.home, "project/shared")})
			for i, mount := range test.opts.Mounts {
				test.opts.Mounts[i] = here.Replace(mount)
			}
			_, _, err := d.plan(here.Replace(test.config), test.opts)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, test.kind) || !strings.Contains(err.Error(), here.Replace(test.want))):
				t.Errorf("%v, want %q", err, here.Replace(test.want))
			}
		})
	}
}

// record puts a stopped sandbox with that workspace on record.
func (d *desk) record(name string, w forage.Workspace) {
	d.t.Helper()
	h := d.host("")
	plan := forage.Plan{Name: name, Runtime: h.Runtimes.Names()[0], Workspace: w}
	if _, err := h.Store.Create(d.t.Context(), store.Record{Name: name, Runtime: plan.Runtime, Phase: forage.PhaseStopped, Plan: plan}, store.Ports{}); err != nil {
		d.t.Fatal(err)
	}
}

// A stopped sandbox is planned again as it was made, wherever its repository has gone meanwhile.
func TestPlanOfWhatIsThere(t *testing.T) {
	d := newDesk(t)
	repository := d.withRepository()
	h := d.host("")
	opts := Options{Name: "box", GitWorktree: "work", Command: []string{"sh"}}
	made, err := h.Plan(t.Context(), opts)
	testdir.Must(t, err)
	d.record("box", made.Plan.Workspace)
	provider, err := h.Workspaces.New(made.Plan.Workspace.Mode)
	if err == nil {
		err = provider.Create(t.Context(), made.Plan.Workspace)
	}
	testdir.Must(t, err)
	repository.Commit("file", "more")
	again, err := h.Plan(t.Context(), opts)
	if err == nil {
		err = Same(made.Plan, again.Plan)
	}
	if err != nil {
		t.Error(err)
	}
	opts.GitWorktree, opts.Clone = "", "work"
	if _, err := h.Plan(t.Context(), opts); !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), "workspace.mode is git-worktree, asked for clone") {
		t.Errorf("%v", err)
	}
}
