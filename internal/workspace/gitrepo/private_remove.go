package gitrepo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
)

// BeforeRemoval brings w up to date and does what how says about work that is nowhere else. Without an error w may be
// removed; branch is the commit at which the host's branch is to be deleted, "" when it stays or isn't there.
func BeforeRemoval(
	ctx context.Context, p workspace.Provider, w forage.Workspace, how workspace.Removal, places workspace.Places,
) (kept []workspace.Recovery, branch string, err error) {
	looking, enough := context.WithTimeout(ctx, KeepPatience)
	defer enough()
	_, updateErr := p.Update(looking, w)
	status, err := p.Status(looking, w)
	if err != nil {
		return nil, "", err
	}
	if updateErr != nil && status.Problem == "" {
		status.Problem = updateErr.Error()
	}
	if how == workspace.RemoveSaved && status.Unsaved() {
		return nil, "", unsavedError(w, status)
	}
	stays := how == workspace.RemoveButBranch && status.CommitsCount > 0
	if stays {
		kept = append(kept, workspace.Recovery{Sandbox: Sandbox(w), Store: w.Repository.Store, Ref: "refs/heads/" + w.Branch, Made: time.Now()})
		status.CommitsCount = 0
	}
	if status.Unsaved() {
		more, err := Keep(ctx, w, Sandbox(w), places.Scratch)
		if err != nil {
			return kept, "", fmt.Errorf("keeping the work in %s: %w", w.Path, err)
		}
		kept = append(kept, more...)
	}
	r, gone := Moved(w)
	if stays || gone != nil {
		return kept, "", nil
	}
	refs, err := r.Refs(ctx, places.Scratch)
	branch = refs.Values["refs/heads/"+w.Branch]
	if status.Problem != "" && !asWeLeftIt(w, branch) { // who changed the branch on the host wants to have it
		branch = ""
	}
	return kept, branch, err
}

// asWeLeftIt says whether the host's branch is where it was when it was made, or where the last import left it.
func asWeLeftIt(w forage.Workspace, branch string) bool {
	state, err := loadImported(w)
	return branch == w.Base || err == nil && branch == state.Branch
}

// LastImported is where the last import left the host's branch of w, or otherwise if there was none.
func LastImported(w forage.Workspace, otherwise string) string {
	if state, err := loadImported(w); err == nil && state.Branch != "" {
		return state.Branch
	}
	return otherwise
}

// Sandbox is the name of the sandbox whose workspace w is.
func Sandbox(w forage.Workspace) string {
	if w.Repository == nil {
		return ""
	}
	part := w.Repository.Dir
	if w.Name != "" && filepath.Base(part) != w.Name { // of a submodule, which lies in that of the part
		part = filepath.Dir(part)
	}
	return filepath.Base(filepath.Dir(part))
}

// unsavedError says which work would be lost, and how to save it.
func unsavedError(w forage.Workspace, status workspace.Status) error {
	var lost []string
	if n := status.CommitsCount; n > 0 {
		lost = append(lost, fmt.Sprintf("commits on branch %s that no other branch has (%d)", w.Branch, n))
	}
	if n := status.UncommittedCount; n > 0 {
		lost = append(lost, fmt.Sprintf("uncommitted changes in files (%d)", n))
	}
	if len(status.Elsewhere) > 0 {
		lost = append(lost, fmt.Sprintf("commits on %q, which the host does not have", status.Elsewhere))
	}
	if status.Problem != "" {
		lost = append(lost, status.Problem)
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "work would be lost: %s", strings.Join(lost, "; ")),
		"see it with `forage-ctl diff "+Sandbox(w)+"`, bring it over with `forage-ctl apply "+Sandbox(w)+"`, or use --force, which keeps it for 30 days")
}

// RemoveTree removes a working folder that was made for a sandbox, whatever is in it.
func RemoveTree(path string) error { return removeAll(path) }

// DeleteBranch deletes w's branch in the host's repository, if both are there and it is still at a commit.
func DeleteBranch(ctx context.Context, w forage.Workspace, at, scratch string) error {
	return withStore(ctx, w.Repository.Store, scratch, func(s *Shadow) error { return s.DeleteBranch(ctx, w.Branch, at) })
}
