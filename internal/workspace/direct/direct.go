// Package direct mounts the user's own folder at /workspace. In the folder itself it makes nothing;
// a repository that is at its root gets private metadata, which is mounted over the user's own
// inside. It refuses folders that would show the sandbox more than a project, or let it write to a
// repository's metadata.
package direct

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Provider is the direct workspace.Provider.
type Provider struct {
	Places workspace.Places
}

var _ workspace.Provider = Provider{}

// Plan resolves the folder once: what is mounted is the path that was checked.
func (Provider) Plan(ctx context.Context, request workspace.Request) (forage.Workspace, error) {
	path, err := filepath.EvalSymlinks(request.Path)
	if err != nil {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "opening the workspace: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "opening the workspace: %w", err)
	}
	if !info.IsDir() {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "the workspace %s is not a folder", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.X_OK); err != nil {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "opening the workspace %s: %w", path, err)
	}
	if err := tooMuch(path, request); err != nil {
		return forage.Workspace{}, forage.WithHint(err, "go to your project's folder, or name it with -w")
	}
	w, _ := gitrepo.Planned(request, forage.WorkspaceDirect)
	w.Path, w.Branch = path, "" // without a repository it has none
	if err := planGit(ctx, request, &w); err != nil {
		return w, err
	}
	if w.Repository != nil && request.Existing != nil && w.Repository == request.Existing.Repository {
		return w, nil
	}
	err = planJJ(ctx, request, &w)
	return w, err
}

// tooMuch refuses a folder that holds more than a project.
func tooMuch(path string, request workspace.Request) error {
	if path == "/" {
		return forage.Errorf(forage.ErrRefused, "the workspace is /: the sandbox would see the whole host")
	}
	for _, dir := range [...]string{"/proc", "/sys", "/dev"} { // switches of the kernel, not files
		if rootfs.Within(path, dir) {
			return forage.Errorf(forage.ErrRefused, "the workspace %s is the kernel's", path)
		}
	}
	if home := workspace.Resolved(request.Home); home != "" && rootfs.Within(home, path) {
		if home == path {
			return forage.Errorf(forage.ErrRefused, "the workspace is your home folder: the sandbox would see your keys and settings")
		}
		return forage.Errorf(forage.ErrRefused, "the workspace %s holds your home folder", path)
	}
	for _, ours := range request.Ours {
		ours = workspace.Resolved(ours)
		if ours != "" && (rootfs.Within(path, ours) || rootfs.Within(ours, path)) {
			return forage.Errorf(forage.ErrRefused, "the workspace %s and Forage's own folder %s are in one another", path, ours)
		}
	}
	return nil
}

// planGit gives w the private metadata of the git repository at its root, if there is one.
func planGit(ctx context.Context, request workspace.Request, w *forage.Workspace) error {
	if dir := gitrepo.MetadataAround(w.Path); dir != "" {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the workspace %s is in %s, a repository's own metadata: what is written there, git on the host executes", w.Path, dir),
			"name the working folder; a bare repository is worked on with --git-worktree or --clone")
	}
	r, err := gitrepo.OpenToRead(ctx, w.Path)
	if errors.Is(err, gitrepo.ErrNoRepository) {
		return withoutGit(ctx, request, w)
	}
	if err != nil {
		return err
	}
	if w.Branch, w.Base, err = start(ctx, r, request); err != nil {
		return err
	}
	if kept := request.Existing; kept != nil && kept.Repository != nil && kept.Repository.Store == r.Common &&
		kept.Path == w.Path && kept.Target == w.Target && kept.ReadOnly == w.ReadOnly {
		w.Repository = kept.Repository // whatever the user has checked out since
		return nil
	}
	pointer, err := isFile(filepath.Join(w.Path, ".git"))
	if err != nil {
		return err
	}
	_, layout := gitrepo.Planned(request, forage.WorkspaceDirect)
	layout.Pointer = pointer
	if w.Repository, err = r.PlanPrivate(layout, r.Head); err != nil {
		return err
	}
	return planSubmodules(ctx, request, r, w)
}

// withoutGit looks at a folder without a repository of its own: it may still be in one, whose git
// enters submodules.
func withoutGit(ctx context.Context, request workspace.Request, w *forage.Workspace) error {
	if _, err := os.Lstat(filepath.Join(w.Path, ".git")); err == nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has a .git that is no repository, and could be made one from inside", w.Path),
			"remove it, or make it one: git init")
	}
	if w.ReadOnly {
		return nil
	}
	root, r, err := gitrepo.Around(w.Path)
	if err != nil {
		return forage.WithHint(err, "put the repository "+root+" right, or take its .git away: what git finds in "+w.Path+" depends on it")
	}
	if r == nil {
		return nil
	}
	links, err := r.Gitlinks(ctx, filepath.Join(r.GitDir, "index"), request.Places.Scratch)
	if err != nil {
		return err
	}
	for _, link := range links {
		if at := filepath.Join(root, link); rootfs.Within(at, w.Path) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is a submodule of %s: what is put into it, a git status there executes", at, root),
				"name the repository itself, whose submodules are protected: -w "+root)
		}
	}
	return nil
}

// start is the branch that commits are brought to, and where they start from.
func start(ctx context.Context, r *gitrepo.Repository, request workspace.Request) (branch, base string, err error) {
	branch = gitrepo.Branch(request.Sandbox, request.Name)
	if request.Existing != nil {
		return branch, request.Existing.Base, nil
	}
	refs, err := r.Refs(ctx, request.Places.Scratch)
	if err != nil {
		return "", "", err
	}
	base = r.Detached
	if r.Head != "" {
		base = refs.Resolve("refs/heads/" + r.Head)
	}
	return branch, base, refs.FreeBranch(branch)
}

func isFile(path string) (bool, error) {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular(), err
}

// Create makes the private metadata; in the user's folder it makes nothing.
func (p Provider) Create(ctx context.Context, w forage.Workspace) error {
	if w.Repository == nil {
		return nil
	}
	if err := gitrepo.RemovePrivate(*w.Repository); err != nil { // what a crash left; to Plan, nobody had it
		return err
	}
	err := p.create(ctx, w)
	if err == nil {
		err = gitrepo.NoteRules(w)
	}
	if err != nil {
		err = errors.Join(err, gitrepo.RemovePrivate(*w.Repository))
	}
	return err
}

// create makes the private .git of each part, and the private .jj; for a repository that jj alone
// has, the git directory below it as well.
func (p Provider) create(ctx context.Context, w forage.Workspace) error {
	for _, part := range parts(w) {
		if isJJ(w) {
			break
		}
		r, err := gitrepo.OpenToRead(ctx, part.Path)
		if err != nil {
			return err
		}
		if err := gitrepo.CreatePrivate(ctx, r, gitrepo.Private{
			Repository: *part.Repository, Branch: part.Repository.Head, Base: part.Base,
			Index: filepath.Join(r.GitDir, "index"), Unfinished: true, Remotes: true, Scratch: p.Places.Scratch,
		}); err != nil {
			return err
		}
	}
	if !jjrepo.Has(w.Repository) {
		return nil
	}
	return jjrepo.In(ctx, w, p.Places.Scratch, func(s *jjrepo.Shadow) error { return s.CreatePrivate(ctx, w) })
}

// parts are w and the submodules in it, each as a workspace of its own.
func parts(w forage.Workspace) []forage.Workspace {
	alone := *w.Repository
	alone.Nested = nil
	all := []forage.Workspace{w}
	all[0].Repository = &alone
	for _, nested := range w.Repository.Nested {
		part := w
		part.Path, part.Target = filepath.Join(w.Path, nested.Path), filepath.Join(w.Target, nested.Path)
		part.Base, part.Repository = nested.Base, &nested.Repository
		all = append(all, part)
	}
	return all
}

// Update imports the commits that were made inside.
func (p Provider) Update(ctx context.Context, w forage.Workspace) (workspace.Update, error) {
	if w.Repository == nil || gitrepo.RemovalBegun(w) {
		return workspace.Update{}, nil
	}
	if isJJ(w) {
		return jjrepo.Update(ctx, w, p.Places.Scratch)
	}
	var update workspace.Update
	for i, part := range parts(w) {
		done, err := gitrepo.Import(ctx, part, p.Places.Scratch)
		if err != nil {
			return update, err
		}
		if i == 0 {
			update = done
		}
	}
	return update, nil
}

// Status says which commits would be lost: the files are the user's own and stay.
func (p Provider) Status(ctx context.Context, w forage.Workspace) (workspace.Status, error) {
	var whole workspace.Status
	if w.Repository == nil || gitrepo.RemovalBegun(w) {
		return whole, nil
	}
	if isJJ(w) {
		return jjrepo.Status(ctx, w, p.Places.Scratch)
	}
	if jjrepo.Has(w.Repository) { // heads that git doesn't know
		if err := jjrepo.Look(ctx, w, p.Places.Scratch); err != nil && ctx.Err() == nil {
			whole.Problem = err.Error()
		}
	}
	for i, part := range parts(w) {
		status, err := gitrepo.Unsaved(ctx, part, p.Places.Scratch)
		if err != nil {
			return whole, err
		}
		if i == 0 {
			status.Problem = cmp.Or(whole.Problem, status.Problem)
			whole = status
			continue
		}
		add(&whole, status, w.Repository.Nested[i-1].Path)
	}
	return whole, nil
}

// add adds what a submodule would lose.
func add(whole *workspace.Status, status workspace.Status, path string) {
	whole.Commits = append(whole.Commits, status.Commits...)
	whole.Commits = whole.Commits[:min(len(whole.Commits), workspace.MaxListed)]
	whole.CommitsCount += status.CommitsCount
	for _, name := range status.Uncommitted {
		whole.Uncommitted = append(whole.Uncommitted, path+"/"+name)
	}
	whole.Uncommitted = whole.Uncommitted[:min(len(whole.Uncommitted), workspace.MaxListed)]
	whole.UncommittedCount += status.UncommittedCount
	if status.CommitsCount > 0 {
		whole.InSubmodules += status.CommitsCount
		whole.Submodules = append(whole.Submodules, path)
	}
	for _, ref := range status.Elsewhere {
		whole.Elsewhere = append(whole.Elsewhere, path+": "+ref)
	}
	if status.Problem != "" && whole.Problem == "" {
		whole.Problem = path + ": " + status.Problem
	}
}

// Remove takes away the private metadata and the branch. It leaves the user's folder alone.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	if w.Mode != forage.WorkspaceDirect {
		return nil, forage.Errorf(nil, "removing the workspace: %q is not a direct one", w.Mode)
	}
	if w.Repository == nil {
		return nil, nil
	}
	if how == workspace.RemoveUnused || gitrepo.Removed(w) {
		return nil, gitrepo.RemovePrivate(*w.Repository)
	}
	removal, kept, err := gitrepo.Removing(ctx, p, parts(w), how, p.Places)
	if err != nil {
		return kept, err
	}
	for i, part := range parts(w) {
		if at := removal.Branch(i); at != "" {
			if err := gitrepo.DropTip(ctx, part, at, p.Places.Scratch); err != nil {
				return kept, err
			}
		}
	}
	return kept, gitrepo.RemovePrivate(*w.Repository)
}
