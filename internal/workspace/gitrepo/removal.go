package gitrepo

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"forage"
)

// removalFile, in private metadata where nobody inside can write, says that nothing of a workspace is to be lost any more: a removal
// that was killed goes on from there, and what is half gone by then is not taken for work.
const removalFile = "removing"

// BeginRemoval notes that a workspace is about to be removed, and at which commits the branches of its parts are to be deleted; "" is not.
func BeginRemoval(repository forage.Repository, branches []string) error {
	text, err := json.Marshal(branches)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(repository.Dir, 0o700); err != nil { // somebody may have taken it away
		return err
	}
	return renameio.WriteFile(filepath.Join(repository.Dir, removalFile), text, 0o600, renameio.WithTempDir(repository.Dir))
}

// BranchesToDelete is what BeginRemoval noted.
func BranchesToDelete(repository forage.Repository) (branches []string, begun bool) {
	text, err := os.ReadFile(filepath.Join(repository.Dir, removalFile))
	return branches, err == nil && json.Unmarshal(text, &branches) == nil
}

// RemovalBegun says whether nothing of a workspace is to be lost any more: its removal has begun, or its private metadata is gone.
func RemovalBegun(repository forage.Repository) bool {
	_, begun := BranchesToDelete(repository)
	return begun || gone(repository.Dir)
}
