package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/config"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// modeFlags are the flags that choose the workspace, at most one of which may be given.
func (o Options) modeFlags() []modeFlag {
	return []modeFlag{
		{"workspace", forage.WorkspaceDirect, o.Workspace},
		{"git-worktree", forage.WorkspaceWorktree, o.GitWorktree},
		{"repo", forage.WorkspaceJJ, o.Repo},
		{"clone", forage.WorkspaceClone, o.Clone},
	}
}

type modeFlag struct {
	name  string
	mode  forage.WorkspaceMode
	value string
}

// askedParts are the parts of the workspace that flags and template ask for, the main one first.
func (p *planner) askedParts(template forage.Template) ([]forage.Part, error) {
	main, flag, err := p.askedMain()
	if err != nil {
		return nil, err
	}
	rest := slices.Clone(template.Parts)
	if at := slices.IndexFunc(rest, func(part forage.Part) bool { return part.ContainerPath == forage.WorkspacePath }); at >= 0 {
		if flag != "" {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "--%s: the template %q has a workspace of its own, its part %s", flag, template.Name, rest[at].Name),
				"leave that flag out, or name another template with -t")
		}
		branch := main.Branch
		if main = rest[at]; branch != "" {
			main.Branch = branch
		}
		rest = slices.Delete(rest, at, at+1)
	}
	if main.Branch != "" && main.Mode == forage.WorkspaceDirect {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "--branch: a folder that is mounted as it is has no branch of its own"),
			"add --git-worktree, --repo or --clone")
	}
	return append([]forage.Part{main}, rest...), nil
}

// askedMain is the workspace that the flags ask for, and which flag did; without one it is the
// current folder.
func (p *planner) askedMain() (main forage.Part, flag string, err error) {
	main = forage.Part{Name: workspace.Main, ContainerPath: forage.WorkspacePath, Mode: forage.WorkspaceDirect, Branch: p.opts.Branch}
	for _, choice := range p.opts.modeFlags() {
		if choice.value == "" {
			continue
		}
		if flag != "" {
			return main, "", forage.WithHint(
				forage.Errorf(forage.ErrUsage, "--%s and --%s exclude one another", flag, choice.name), "a sandbox has one workspace: choose one of them")
		}
		flag, main.Mode, main.Repo = choice.name, choice.mode, choice.value
	}
	if main.Mode == forage.WorkspaceClone && forage.IsURL(main.Repo) {
		return main, flag, nil
	}
	asked := main.Repo
	main.Repo, err = p.host.Caller.Abs(asked)
	if err == nil && main.Mode == forage.WorkspaceDirect && asked != "" && !Exists(main.Repo) {
		err = forage.WithHint(forage.Errorf(forage.ErrUsage, "--workspace: there is no folder %s", main.Repo), "-w names a folder of this machine; inside it is always /workspace")
	}
	if err == nil && main.Mode != forage.WorkspaceDirect && forage.IsURL(asked) && !Exists(main.Repo) {
		hint := "--clone takes URLs"
		if folder, is := strings.CutPrefix(asked, "file://"); is {
			hint = fmt.Sprintf("name the folder: --%s %s", flag, term.ShellWord(folder))
		} else if main.Mode == forage.WorkspaceJJ {
			hint = "`jj git clone` makes one on this machine; to work with git, --clone takes URLs"
		}
		err = forage.WithHint(forage.Errorf(forage.ErrUsage, "--%s: %s is no repository on this machine", flag, asked), hint)
	}
	return main, flag, err
}

// projectOf reads the project's own file where the user has it: in the folder or repository that a
// part is made from. What is elsewhere, or has no files, has none.
func projectOf(part forage.Part) (config.Project, error) {
	folder, err := filepath.EvalSymlinks(part.Repo)
	if err != nil {
		return config.Project{}, nil // a URL; that a folder is not there is for its provider to say
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return config.Project{}, nil
	}
	return config.LoadProject(folder)
}

// workspaces has each part's provider decide what it will be.
func (p *planner) workspaces(ctx context.Context) error {
	existing, err := p.existing()
	if err != nil {
		return err
	}
	for i, part := range p.parts {
		if p.opts.ReadOnly || p.chosen.ReadOnlyWorkspace {
			part.ReadOnly = true
		}
		planned, err := p.planPart(ctx, part, existing[part.Name])
		if err != nil {
			return err
		}
		if i == 0 {
			p.plan.Workspace = planned
			p.noteBelow(planned)
		} else {
			p.plan.Parts = append(p.plan.Parts, planned)
		}
	}
	return nil
}

// noteBelow says that git and jj don't work in a folder in which the user's do: it is below the
// root of a repository. Who has one in the home folder, which can't be a workspace, knows.
func (p *planner) noteBelow(w forage.Workspace) {
	if w.Mode != forage.WorkspaceDirect || w.Repository != nil {
		return
	}
	root, _, _ := gitrepo.Around(w.Path)
	if root = cmp.Or(root, gitrepo.JJAbove(w.Path)); root != "" && root != workspace.Resolved(p.host.Caller.Home) {
		p.note("%s is a part of the repository %s, and git and jj don't work in it: name that folder with -w if they are to", w.Path, root)
	}
}

// existing are the parts of the sandbox of that name, if there is one.
func (p *planner) existing() (map[string]forage.Workspace, error) {
	record, err := p.host.Store.Load(p.plan.Name)
	if errors.Is(err, forage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parts := make(map[string]forage.Workspace)
	for _, w := range record.Plan.Workspaces() {
		parts[w.Name] = w
	}
	return parts, nil
}

// planPart plans one part. What it is made from may be seen inside, as what it is made into: both
// are looked at.
func (p *planner) planPart(ctx context.Context, part forage.Part, existing forage.Workspace) (forage.Workspace, error) {
	h := p.host
	provider, err := h.Workspaces.New(part.Mode)
	if err != nil {
		return forage.Workspace{}, err
	}
	request := workspace.Request{
		Sandbox: p.plan.Name, Name: part.Name, Path: part.Repo, Target: part.ContainerPath, Branch: part.Branch, ReadOnly: part.ReadOnly,
		Home: h.Caller.Home, Ours: []string{h.Places.State, h.Places.Runtime}, Places: h.Workspaces.Places,
	}
	if existing.Mode == part.Mode {
		request.Existing = &existing
	} else if existing.Mode != "" {
		return forage.Workspace{}, differs(p.plan.Name, "workspace.mode is "+string(existing.Mode)+", asked for "+string(part.Mode))
	}
	if was := existing.Source; filepath.IsAbs(was) && filepath.IsAbs(part.Repo) && workspace.Resolved(was) != workspace.Resolved(part.Repo) {
		return forage.Workspace{}, differs(p.plan.Name, "workspace.source is "+was+", asked for "+part.Repo)
	}
	planned, err := provider.Plan(ctx, request)
	if err != nil {
		return forage.Workspace{}, err
	}
	for _, origin := range origins(planned) {
		if err := h.StaysWithin(part.Repo, origin); err != nil {
			return forage.Workspace{}, err
		}
		if err := p.confirmLink(part.Repo, origin, slices.ContainsFunc(p.opts.modeFlags(), func(flag modeFlag) bool {
			path, err := p.host.Caller.Abs(flag.value)
			return flag.value != "" && err == nil && path == part.Repo
		})); err != nil {
			return forage.Workspace{}, err
		}
		if err := p.forbid.CheckMount(origin); err != nil {
			return forage.Workspace{}, err
		}
	}
	return planned, nil
}

// origins are the user's own folders that a part shows, or has the content of: what is forbidden
// to be shown may not be there.
func origins(w forage.Workspace) []string {
	if w.Mode == forage.WorkspaceDirect {
		return []string{w.Path}
	}
	if filepath.IsAbs(w.Source) {
		return []string{w.Source}
	}
	return nil // a URL
}

// shown are the mounts through which the sandbox sees what is the user's, and may come to change
// it: those of the plan, and the repositories from which its workspaces are made, which its work is
// brought to.
func (p *planner) shown() []forage.Mount {
	mounts := slices.Clone(p.plan.Spec.Mounts)
	for _, w := range p.plan.Workspaces() {
		if w.Mode == forage.WorkspaceDirect {
			continue // is among them
		}
		for _, origin := range origins(w) {
			mounts = append(mounts, forage.Mount{Source: origin, Target: w.Target, Writable: !w.ReadOnly})
		}
	}
	return mounts
}
