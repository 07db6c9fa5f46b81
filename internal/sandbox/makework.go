package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// makeWorkspaces makes what the providers planned. The sandbox is on record by then, in PhaseCreating, so that
// what is made is found again however this ends. A note beside the metadata says what is made: it
// outlives a record that somebody removes by hand.
func (s *Service) makeWorkspaces(ctx context.Context, plan forage.Plan) error {
	if err := s.noteWorkspaces(plan); err != nil {
		return err
	}
	for _, w := range plan.Workspaces() {
		provider, err := s.Workspaces.New(w.Mode)
		if err != nil {
			return err
		}
		if err := provider.Create(ctx, w); err != nil {
			return fmt.Errorf("making the workspace: %w", err)
		}
	}
	return errors.Join(makeRoom(plan), hideParts(plan.Workspaces()))
}

// removeWorkspaces takes away what was made, the last part first.
func (s *Service) removeWorkspaces(ctx context.Context, name string, parts []forage.Workspace, how workspace.Removal) error {
	var kept []workspace.Recovery
	var notes []string
	var failed []error
	for _, w := range slices.Backward(parts) {
		provider, err := s.Workspaces.New(w.Mode)
		if err == nil {
			var recovered []workspace.Recovery
			recovered, err = s.removePart(ctx, provider, name, w, how)
			kept = append(kept, recovered...)
			for _, recovery := range recovered {
				notes = append(notes, recoveryNote(recovery, w))
			}
		}
		failed = append(failed, err)
	}
	err := errors.Join(append(failed, s.remember(kept))...)
	for _, note := range notes {
		s.notify(note)
	}
	if err == nil {
		err = s.forgetWorkspaces(name)
	}
	return err
}

// removePart removes one part. Work that can't be kept where it belongs, since the repository is gone or what
// is inside can't be read, is set aside as it is: who asks for it with force is not left with it.
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
	kept = append(kept, workspace.Recovery{Sandbox: name, Folder: folder, Made: time.Now().UTC()})
	_, err = provider.Remove(ctx, w, workspace.RemoveUnused)
	return kept, err
}

// setAside moves what was made for a part to a folder of its own, and returns that; "" if there is nothing of it.
func (s *Service) setAside(name string, w forage.Workspace) (string, error) {
	made := map[string]string{}
	if below(w.Path, workspace.Resolved(s.Workspaces.Places.Trees)) {
		made["files"] = w.Path
	}
	if w.Repository != nil {
		made["repository"], made["store"] = w.Repository.Dir, w.Repository.Dir+".store"
	}
	folder := strings.TrimSuffix(s.recoveryFile(name, time.Now()), ".json") + "." + w.Name
	moved := false
	for as, path := range made {
		if !exists(path) {
			continue
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", err
		}
		if err := os.Rename(path, filepath.Join(folder, as)); err != nil {
			return "", err
		}
		moved = true
	}
	if !moved {
		return "", nil
	}
	return folder, nil
}

// partName is a sandbox, or one part of its workspace, in a message.
func partName(sandbox string, w forage.Workspace) string {
	if w.Name == "" || w.Name == workspace.Main {
		return sandbox
	}
	return sandbox + " (" + w.Name + ")"
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

// noteFile holds, as JSON, what was made for a sandbox: a list of forage.Workspace.
func (s *Service) noteFile(name string) string {
	return filepath.Join(s.Workspaces.Places.Repositories, name+".json")
}

func (s *Service) noteWorkspaces(plan forage.Plan) error {
	made := madeParts(plan)
	if len(made) == 0 {
		return nil
	}
	return writeWhole(s.noteFile(plan.Name), made, !plan.Ephemeral) // as the record of a run
}

// madeParts are the parts of a workspace for which something is made.
func madeParts(plan forage.Plan) []forage.Workspace {
	return slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool {
		return w.Mode == forage.WorkspaceDirect && w.Repository == nil
	})
}

// noted is what the note of a sandbox says was made; nothing if there is none.
func (s *Service) noted(name string) ([]forage.Workspace, error) {
	var made []forage.Workspace
	err := readJSON(s.noteFile(name), &made)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return made, err
}

// forgetWorkspaces removes the last of a sandbox whose workspaces are gone: what was kept beside the metadata, and the note.
func (s *Service) forgetWorkspaces(name string) error {
	if err := gitrepo.RemoveTree(filepath.Join(s.Workspaces.Places.Repositories, name)); err != nil {
		return err
	}
	if err := os.Remove(s.noteFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// recoveryFile holds, as JSON, what was kept at one removal, until gc lets it go.
func (s *Service) recoveryFile(sandbox string, made time.Time) string {
	return filepath.Join(s.recoveryDir(), sandbox+"."+made.UTC().Format("20060102T150405.000000000Z")+".json")
}

func (s *Service) recoveryDir() string {
	return filepath.Join(s.Workspaces.Places.Repositories, ".recovery")
}

// remember notes what was kept, so that gc knows when to let it go. A branch is the user's from now on.
func (s *Service) remember(kept []workspace.Recovery) error {
	kept = slices.DeleteFunc(slices.Clone(kept), func(r workspace.Recovery) bool { return isBranch(r.Ref) && !workspace.IsKept(r.Store) })
	if len(kept) == 0 {
		return nil
	}
	return writeJSON(s.recoveryFile(kept[0].Sandbox, time.Now()), kept)
}

// recoveryNote says where the removed work of w is, and how to get it back.
func recoveryNote(r workspace.Recovery, w forage.Workspace) string {
	days := int(workspace.RecoveryKept / (24 * time.Hour))
	branch := strings.TrimPrefix(r.Ref, branchRefs)
	jj := w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ
	switch {
	case r.Folder != "":
		return fmt.Sprintf("the files of %s are kept for %d days in %s", r.Sandbox, days, r.Folder)
	case isBranch(r.Ref) && workspace.IsKept(r.Store):
		return fmt.Sprintf("the commits of %s are kept for %d days: git fetch %s %s brings them", r.Sandbox, days, r.Store, branch)
	case isBranch(r.Ref) && jj:
		return fmt.Sprintf("the commits of %s are at the bookmark %s: `jj new %s` goes on from them", r.Sandbox, branch, branch)
	case isBranch(r.Ref) && w.Mode == forage.WorkspaceDirect:
		return fmt.Sprintf("the commits of %s are on the branch %s of %s; the files are in your folder already: `git reset %s` there moves your branch to them, if it has got no commits of its own meanwhile",
			r.Sandbox, branch, r.Store, branch)
	case isBranch(r.Ref):
		return fmt.Sprintf("the commits of %s are on the branch %s of %s: `git merge %s` brings them into yours", r.Sandbox, branch, r.Store, branch)
	case workspace.IsKept(r.Store):
		return fmt.Sprintf("the work of %s is kept for %d days in %s: in a repository of yours, `git fetch %s %s:NAME` brings it to a branch NAME", r.Sandbox, days, r.Store, r.Store, r.Ref)
	}
	back := fmt.Sprintf("git --git-dir=%s branch NAME %s", r.Store, r.Ref)
	if jj {
		back += ", and then jj git import,"
	}
	return fmt.Sprintf("the work of %s is kept for %d days as %s: %s brings it back", r.Sandbox, days, r.Ref, back)
}

const branchRefs = "refs/heads/"

func isBranch(ref string) bool {
	return len(ref) > len(branchRefs) && ref[:len(branchRefs)] == branchRefs
}

// writeJSON writes a file of ours in a folder of ours, whole or not at all, also when the host fails.
func writeJSON(path string, value any) error { return writeWhole(path, value, true) }

// writeWhole is writeJSON. What is not durable may be lost with the host.
func writeWhole(path string, value any, durable bool) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return store.WriteFile(path, append(text, '\n'), durable)
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
