package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/review"
)

// makeWorkspaces makes what the providers planned. The sandbox is on record by then, in
// PhaseCreating, so that what is made is found again however this ends. A note beside the metadata
// says what is made: it outlives a record that is removed by hand.
func (s *Service) makeWorkspaces(ctx context.Context, plan forage.Plan) error {
	if err := s.noteWorkspaces(plan); err != nil {
		return err
	}
	for _, w := range plan.Workspaces() {
		provider, err := s.Workspaces.New(w.Mode)
		if err != nil {
			return err
		}
		end := s.progress("making the workspace, " + string(w.Mode))
		err = provider.Create(ctx, w)
		end()
		if err != nil {
			return fmt.Errorf("making the workspace: %w", err)
		}
	}
	return errors.Join(makeRoom(plan), hideParts(plan.Workspaces()))
}

// removeWorkspaces takes away what was made, the last part first.
func (s *Service) removeWorkspaces(ctx context.Context, name string, parts []forage.Workspace, how workspace.Removal) error {
	end, err := s.beginRemoval(name, parts, how)
	if err != nil {
		return err
	}
	var kept []workspace.Recovery
	var notes []string
	var failed []error
	for _, w := range slices.Backward(parts) {
		provider, err := s.Workspaces.New(w.Mode)
		if err == nil {
			err = s.recoverApply(ctx, name, w, how)
		}
		if err == nil {
			var recovered []workspace.Recovery
			recovered, err = s.removePart(ctx, provider, name, w, how)
			kept = append(kept, recovered...)
			notes = append(notes, recoveryNotes(recovered, w)...)
		}
		failed = append(failed, err)
	}
	err = errors.Join(append(failed, s.remember(kept))...)
	for _, note := range notes {
		s.notify(note)
	}
	if err != nil {
		return err
	}
	return errors.Join(end(), s.forgetWorkspaces(name))
}

// recoverApply takes back what an apply left in the user's folder that was killed: once the part is
// removed, no record has it.
func (s *Service) recoverApply(ctx context.Context, name string, w forage.Workspace, how workspace.Removal) error {
	err := review.Recover(ctx, s.subject(name, w), s.nobodyWrites)
	if err != nil && how == workspace.RemoveForced && ctx.Err() == nil {
		s.notify(err.Error())
		return nil
	}
	return err
}

// removePart removes one part. Work that can't be kept in its repository, because that is gone or
// can't be read, is set aside as it is, so that a removal with force always gets rid of the
// sandbox.
func (s *Service) removePart(ctx context.Context, provider workspace.Provider, name string, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	kept, err := provider.Remove(ctx, w, how)
	if err == nil || how == workspace.RemoveSaved || how == workspace.RemoveUnused || ctx.Err() != nil {
		return kept, err
	}
	folder, asideErr := s.setAside(name, w)
	if asideErr != nil || folder == "" {
		return kept, errors.Join(err, asideErr)
	}
	s.notify(err.Error())
	aside := workspace.Recovery{Sandbox: name, Folder: folder, Made: time.Now().UTC()}
	if w.Mode == forage.WorkspaceWorktree {
		aside.Left = &w
	}
	kept = append(kept, aside)
	_, err = provider.Remove(ctx, w, workspace.RemoveUnused)
	return kept, err
}

// updateWorkspaces brings the commits of all parts to the host's repositories.
func (s *Service) updateWorkspaces(ctx context.Context, plan forage.Plan) error {
	var failed []error
	for _, w := range plan.Workspaces() {
		provider, err := s.Workspaces.New(w.Mode)
		if err == nil {
			_, err = provider.Update(ctx, w)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("bringing the commits of %s to its repository: %w", partName(plan.Name, w), err))
		}
	}
	return errors.Join(failed...)
}
