package gitrepo

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"forage"
)

// removalFile, in private metadata where nobody inside can write, says that nothing of a workspace is to be lost any more: a removal
// that was killed, or failed, is gone on with by the next, and what is half gone by then is not taken for work. So it goes last.
const removalFile = "removing"

// Removal is what a removal that has begun is to do.
type Removal struct {
	Branches []string `json:"branches,omitempty"` // at which commits those of the parts are to be deleted; "" is not
	Aside    string   `json:"aside,omitempty"`    // where the repository of a clone is kept; "" is nowhere
}

// Branch is at which commit the branch of a part is to be deleted; "" is not.
func (r Removal) Branch(part int) string {
	if part < len(r.Branches) {
		return r.Branches[part]
	}
	return ""
}

// BeginRemoval notes that a workspace is about to be removed.
func BeginRemoval(repository forage.Repository, r Removal) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(repository.Dir, 0o700); err != nil { // somebody may have taken it away
		return err
	}
	return renameio.WriteFile(filepath.Join(repository.Dir, removalFile), text, 0o600, renameio.WithTempDir(repository.Dir))
}

// ReadRemoval is what BeginRemoval noted.
func ReadRemoval(repository forage.Repository) (r Removal, begun bool) {
	text, err := os.ReadFile(filepath.Join(repository.Dir, removalFile))
	return r, err == nil && json.Unmarshal(text, &r) == nil
}

// Removed says whether nothing is there any more that was made for w.
func Removed(w forage.Workspace) bool {
	return gone(w.Repository.Dir) && (w.Mode == forage.WorkspaceDirect || gone(w.Path))
}

// RemovalBegun says whether nothing of w is to be lost any more: its removal has begun, or it was removed.
func RemovalBegun(w forage.Workspace) bool {
	_, begun := ReadRemoval(*w.Repository)
	return begun || Removed(w)
}
