package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

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

// forgetWorkspaces removes the last of a sandbox whose workspaces are gone: what was kept beside
// the metadata, and the note.
func (s *Service) forgetWorkspaces(name string) error {
	if err := hostile.RemoveAll(filepath.Join(s.Workspaces.Places.Repositories, name)); err != nil {
		return err
	}
	if err := os.Remove(s.noteFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// partName is a sandbox, or one part of its workspace, in a message.
func partName(sandbox string, w forage.Workspace) string {
	if w.Name == "" || w.Name == workspace.Main {
		return sandbox
	}
	return sandbox + " (" + w.Name + ")"
}
