package work

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/store"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/review"
)

// Work is what has become of one part of a workspace: where its commits come to, and what would be
// lost with it.
type Work struct {
	Part   string               `json:"part"`
	Mode   forage.WorkspaceMode `json:"mode"`
	Path   string               `json:"path"`             // on the host
	Source string               `json:"source,omitempty"` // the repository, or URL, that it is made from
	Branch string               `json:"branch,omitempty"` // of that repository
	Base   string               `json:"base,omitempty"`   // the commit that it started from
	// Unsaved: some of it is nowhere else.
	Unsaved bool `json:"unsaved"`
	workspace.Status

	part forage.Workspace
}

// work brings the commits of every part to its repository, and says what is left that would be
// lost. A supervisor goes on with bringing what takes longer than patience.
func (k *Keeper) Of(ctx context.Context, patience time.Duration, parts []forage.Workspace) []Work {
	all := make([]Work, len(parts))
	for i, w := range parts {
		status, err := k.unsavedPart(ctx, patience, w)
		if w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ {
			w.Branch = "" // the user sees none before `apply`
		}
		if err != nil && status.Problem == "" {
			status.Problem = err.Error()
		}
		all[i] = Work{
			Part: w.Name, Mode: w.Mode, Path: w.Path, Source: w.Source, Branch: w.Branch, Base: w.Base,
			Unsaved: status.Unsaved(), Status: status, part: w,
		}
	}
	return all
}

func (k *Keeper) unsavedPart(ctx context.Context, patience time.Duration, w forage.Workspace) (workspace.Status, error) {
	provider, err := k.Host.Workspaces.New(w.Mode)
	if err != nil {
		return workspace.Status{}, err
	}
	updated := broughtWithin(ctx, patience, provider, w)
	looking, looked := within(ctx, max(patience, deadline.Answer))
	defer looked()
	status, err := k.saidOf(looking, provider, w)
	if err == nil {
		err = updated
	}
	return status, err
}

// broughtWithin brings commits to their repository, as far as that is done in time.
func broughtWithin(ctx context.Context, patience time.Duration, provider workspace.Provider, w forage.Workspace) error {
	bringing, brought := within(ctx, patience)
	defer brought()
	_, err := provider.Update(bringing, w)
	if err != nil && bringing.Err() != nil && ctx.Err() == nil {
		return forage.Errorf(forage.ErrRefused, "commits are still being brought to the repository: look again in a while")
	}
	return err
}

// saidOf is the status of a part. What the user has of the work since an apply, such as committed
// by hand, is noted first.
func (k *Keeper) saidOf(ctx context.Context, provider workspace.Provider, w forage.Workspace) (workspace.Status, error) {
	status, err := provider.Status(ctx, w)
	if err != nil || status.Problem != "" || status.CommitsCount+status.UncommittedCount == 0 {
		return status, err
	}
	if taken, _ := review.TakenOver(ctx, k.subject(gitrepo.Sandbox(w), w)); !taken { // or not known: it counts as unsaved
		return status, nil
	}
	return provider.Status(ctx, w)
}

// within is ctx for a look that is given up after so long.
func within(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, forage.Errorf(forage.ErrRefused, "looking took longer than %v", patience))
}

// nothingUnsaved refuses to go on while a part has work that is nowhere else.
func (k *Keeper) NothingUnsaved(ctx context.Context, name string, parts []forage.Workspace) error {
	unsaved := slices.DeleteFunc(k.Of(ctx, deadline.Progress, parts), func(w Work) bool { return !w.Unsaved })
	if ctx.Err() != nil { // what is unsaved is not known
		return context.Cause(ctx)
	}
	if len(unsaved) == 0 {
		return nil
	}
	var lines []string
	for _, u := range unsaved {
		who := ""
		if len(parts) > 1 {
			who = u.Part + ": "
		}
		lines = append(lines, who+u.Text())
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the work in %s would be lost: %s", name, strings.Join(lines, "; ")),
		wayOut(name, unsaved))
}

// Marked is when it was begun to look for the unsaved work of a sandbox.
type Marked map[string]workspace.Moment // by the folder of a part's private metadata

// Mark comes before a look.
func Mark(parts []forage.Workspace) Marked {
	marked := make(Marked)
	for _, w := range parts {
		if w.Repository != nil {
			if at, err := workspace.Now(filepath.Dir(w.Repository.Dir)); err == nil {
				marked[w.Repository.Dir] = at
			}
		}
	}
	return marked
}

// Untouched says whether what the look has found still holds: nothing was changed in a working
// folder, or in private metadata, since it was begun.
func (m Marked) Untouched(parts []forage.Workspace) bool {
	return !slices.ContainsFunc(parts, func(w forage.Workspace) bool {
		if w.Repository == nil {
			return false
		}
		at, known := m[w.Repository.Dir]
		return !known || !at.Untouched(w.Path, w.Repository.Dir)
	})
}

// wayOut says what can be done about unsaved work.
func wayOut(name string, unsaved []Work) string {
	branch, merge, known, brought := "", "", false, false
	var ways, takes []string
	for _, u := range unsaved {
		merge = cmp.Or(merge, u.MergeCommand(name))
		known = known || u.Problem == ""
		brought = brought || u.CommitsCount-u.InSubmodules+u.UncommittedCount > 0
		if take := WayToTake(name, u.part); !slices.Contains(takes, take) {
			takes = append(takes, take)
		}
		if u.Branch != "" && u.CommitsCount > u.InSubmodules && u.Mode != forage.WorkspaceClone {
			branch = u.Branch
		}
		for _, submodule := range u.Submodules[:min(len(u.Submodules), named)] { // where diff and apply don't look
			ways = append(ways, resetTo(filepath.Join(u.Path, submodule), u.Branch))
		}
	}
	if !known {
		return "put that right (what was moved: move it back; a full disk: free some space), or `forage-ctl down --force " + name + "` keeps what can be found of the work for 30 days and removes the sandbox"
	}
	nowhere := !brought && len(ways) == 0
	if merge != "" {
		ways = append(ways, "`"+merge+"` brings along what is on another branch")
	}
	shown := "`forage-ctl diff " + name + "` shows it, " + strings.Join(takes, ", ")
	if branch != "" {
		shown += ", or merge or push the branch " + branch
	}
	if brought {
		ways = append(ways, shown)
	}
	if nowhere { // apply doesn't look there
		ways = append(ways, "inside, bring it into the sandbox's own branch (`git merge`, `git stash pop`, `jj rebase`) or delete it (`git tag -d`), and then "+strings.Join(takes, ", "))
	}
	return strings.Join(ways, "; ") + "; `forage-ctl down --force " + name + "` keeps it for 30 days and removes the sandbox"
}

// MergeCommand is a command that has commits which are only inside come to Branch; "" if none is
// known.
func (u Work) MergeCommand(name string) string {
	if u.Merge == "" {
		return ""
	}
	git := "git"
	if u.part.Target != forage.WorkspacePath {
		git += " -C " + u.part.Target
	}
	return "forage-ctl exec " + name + " -- " + git + " merge " + u.Merge
}

// named is how many names one line has.
const named = 5

// Text says in one line what would be lost. It has text from inside: escape it.
func (u Work) Text() string {
	var parts []string
	if u.CommitsCount > 0 {
		var ids []string
		for _, c := range u.Commits[:min(len(u.Commits), named)] {
			ids = append(ids, fmt.Sprintf("%.10s %.60q", c.ID, c.Subject))
		}
		where := ""
		if u.Branch != "" {
			where = " on " + u.Branch + " alone"
		}
		list := some(ids, u.CommitsCount)
		if len(u.Submodules) > 0 {
			list += "; submodules: " + some(u.Submodules[:min(len(u.Submodules), named)], len(u.Submodules))
		}
		parts = append(parts, fmt.Sprintf("%s%s (%s)", term.Count(u.CommitsCount, "commit"), where, list))
	}
	if u.UncommittedCount > 0 {
		parts = append(parts, fmt.Sprintf("%s with uncommitted changes (%s)", term.Count(u.UncommittedCount, "file"), some(u.Uncommitted[:min(len(u.Uncommitted), named)], u.UncommittedCount)))
	}
	if len(u.Elsewhere) > 0 {
		parts = append(parts, fmt.Sprintf("commits that are only inside, at %s", some(u.Elsewhere[:min(len(u.Elsewhere), named)], len(u.Elsewhere))))
	}
	if u.Problem != "" {
		parts = append(parts, u.Problem)
	}
	return strings.Join(parts, ", ")
}

// some is a list that may be longer than what is shown of it.
func some(shown []string, all int) string {
	text := strings.Join(shown, ", ")
	if all > len(shown) {
		text += ", ..."
	}
	return text
}

// WayToTake says what brings the work of a part to the user.
func WayToTake(name string, w forage.Workspace) string {
	if w.Mode == forage.WorkspaceClone && forage.IsURL(w.Source) {
		return fmt.Sprintf("`git fetch %s %s`, in a repository of yours, brings its commits", term.ShellWord(w.Repository.Store), w.Branch)
	}
	return "`forage-ctl apply " + name + "` brings it into your repository"
}

// Shown is what a list says of a workspace.
type Shown struct {
	Unsaved *bool  // nil: not known in time, or there is nothing to compare with
	Branch  string // that the commits are on; "" where it was not made yet
}

// Shown brings commits to where the user looks for them, and says whether work is left that
// would be lost. Where commits can't be brought, status says why.
func (k *Keeper) Shown(ctx context.Context, record store.Record) Shown {
	ctx, looked := within(ctx, deadline.Answer)
	defer looked()
	shown, known, unsaved := Shown{Branch: record.GitBranch}, false, false
	made := record.Phase != forage.PhaseCreating && record.Phase != forage.PhaseRemoving
	before, now := map[string]seen{}, map[string]seen{}
	_ = store.ReadJSON(k.seenFile(record.Name), &before) // without it git is asked
	for i, w := range record.Plan.Workspaces() {
		provider, err := k.Host.Workspaces.New(w.Mode)
		if err != nil {
			return shown
		}
		compared := made && w.Repository != nil && !w.ReadOnly
		if w.Mode != forage.WorkspaceDirect && compared {
			part, err := k.isUnsaved(ctx, provider, w, before[w.Name])
			if err != nil {
				return shown
			}
			now[w.Name] = part
			known, unsaved = true, unsaved || part.Unsaved
			continue
		}
		update, err := provider.Update(ctx, w)
		if i == 0 && w.Mode == forage.WorkspaceDirect && err == nil && update.After == "" { // it is made for the first commit
			shown.Branch = ""
		}
		if !compared {
			continue
		}
		status, err := k.saidOf(ctx, provider, w)
		if err != nil {
			return shown
		}
		known, unsaved = true, unsaved || status.Unsaved()
	}
	if known {
		shown.Unsaved = &unsaved
	}
	if !maps.Equal(before, now) {
		_ = store.WriteWhole(k.seenFile(record.Name), now, false) // that it can't be kept only costs time
	}
	return shown
}
