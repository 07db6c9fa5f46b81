package gitrepo

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

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

// imported is what is known of the last import of a workspace. It is kept beside the private metadata, where
// the sandbox sees nothing of it.
type imported struct {
	// Tip is the commit inside that was last brought to the host, or the one that the work began at.
	Tip string `json:"tip,omitempty"`
	// Own and Head are where the sandbox's branch inside, and what was checked out there, were when Tip was chosen.
	Own  string `json:"own,omitempty"`
	Head string `json:"head,omitempty"`
	// Unrelated is the commit checked out inside that was last found to have no history in common with the sandbox's branch.
	Unrelated string `json:"unrelated,omitempty"`
	// Instead is the ref inside that is in the place of the sandbox's branch, where there is none: it was given another
	// name, or there was no commit when the sandbox began.
	Instead string `json:"instead,omitempty"`
	// Detached: HEAD was detached at Tip. Left are such commits that were left since: nothing inside need have them any more.
	Detached bool     `json:"detached,omitempty"`
	Left     []string `json:"left,omitempty"`
	// Branch is where we left the branch on the host; "": it wasn't there. If it is elsewhere now, the user moved it.
	Branch string `json:"branch,omitempty"`
	// Next is where the branch is being moved to: after a crash it is at one of the two.
	Next string `json:"next,omitempty"`
	// Index is the commit that the index of the working folder on the host was last brought to.
	Index string `json:"index,omitempty"`
}

// Names of what is kept beside a part's private metadata.
const (
	importedSuffix = ".imported"
	lockSuffix     = ".lock"
	indexSuffix    = ".look" // an index with the times of files
	refsSuffix     = ".refs" // what CreatePrivate copied of the host's refs, as packed-refs
)

func loadImported(w forage.Workspace) (imported, error) {
	text, err := os.ReadFile(w.Repository.Dir + importedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		first := imported{Tip: w.Base, Own: w.Base, Head: w.Base}
		if w.Mode != forage.WorkspaceDirect { // others begin with a branch of their own
			first.Branch, first.Index = w.Base, w.Base
		}
		return first, nil
	}
	if err != nil {
		return imported{}, err
	}
	var state imported
	if err := json.Unmarshal(text, &state); err != nil {
		return imported{}, fmt.Errorf("reading %s: %w", w.Repository.Dir+importedSuffix, err)
	}
	return state, nil
}

func saveImported(w forage.Workspace, state imported) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	file := w.Repository.Dir + importedSuffix
	return renameio.WriteFile(file, append(text, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(file)))
}

// done says whether there is nothing to do as long as the work inside is at this place.
func (state imported) done(w forage.Workspace, at place) bool {
	return at.nowhere() || state.Next == "" && state.judged(at) && (state.Index == state.Branch || !hasTree(w))
}

// maxLeft bounds imported.Left: whoever is inside can leave any number. The first are let go of, as git's reflogs do.
const maxLeft = 100

// decided notes what the work at a place is brought as.
func (state *imported) decided(at place, tip string) {
	detached := at.on == "HEAD" && tip == at.head
	if state.Detached && !detached && at.head != state.Tip && !slices.Contains(state.Left, state.Tip) {
		state.Left = append(state.Left, state.Tip)
		state.Left = state.Left[max(0, len(state.Left)-maxLeft):]
	}
	state.Detached = detached
	switch {
	case !at.lacking:
		state.Instead = ""
	case at.own == "" && tip == at.head && strings.HasPrefix(at.on, "refs/heads/"):
		state.Instead = at.on
	}
	state.Tip, state.Next, state.Own, state.Head = tip, "", at.own, at.head
}

// hasTree says whether the workspace's folder on the host is a working folder of ours, whose index we look after.
func hasTree(w forage.Workspace) bool {
	return w.Mode == forage.WorkspaceWorktree || w.Mode == forage.WorkspaceClone
}

// lockImport keeps other processes of ours from importing the same workspace at the same time: the supervisor
// does, and so does whoever looks.
func lockImport(ctx context.Context, w forage.Workspace) (unlock func(), err error) {
	return lockFile(ctx, w.Repository.Dir+lockSuffix)
}

func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", filepath.Base(path), err)
	}
	if err := workspace.Flock(ctx, file, unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for another import: %w", err), file.Close())
	}
	return func() { file.Close() }, nil
}

// copiedRefs are the host's refs as they were when the private metadata was made: one that is still the same
// inside holds no work, even when the user has moved or deleted it on the host since.
func copiedRefs(w forage.Workspace) (map[string]string, error) {
	text, err := os.ReadFile(w.Repository.Dir + refsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePacked(text)
}
