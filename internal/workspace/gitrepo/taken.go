package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage"
)

// takenSuffix names the note of what NoteTaken is told.
const takenSuffix = ".taken"

// NoteTaken remembers that a commit in the user's repository has the files of w that no commit inside has. As long as a branch
// of the user's leads to it, those that are still the same are nothing that would be lost.
func NoteTaken(w forage.Workspace, commit string) error {
	if !filepath.IsAbs(w.Repository.Dir) { // the note would be in whatever folder the caller is in
		return fmt.Errorf("noting what was taken: %q is no folder of ours", w.Repository.Dir)
	}
	return os.WriteFile(w.Repository.Dir+takenSuffix, []byte(commit+"\n"), 0o600)
}

// Taken is what was noted last; "" is nothing.
func Taken(w forage.Workspace) (string, error) {
	text, err := os.ReadFile(w.Repository.Dir + takenSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// withoutTaken are the changed files that the user has not taken over as they are.
func (i *importing) withoutTaken(ctx context.Context, changed []string) ([]string, error) {
	commit, err := Taken(i.w)
	if err != nil || commit == "" || len(changed) == 0 {
		return changed, err
	}
	args := append([]string{"rev-list", "--max-count=1", commit, "--not"}, published(branchRef(i.w.Branch))...)
	if out, err := i.host.Git(ctx, Call{Args: args}); err != nil || len(out) > 0 {
		return changed, nil // it is gone, or on no branch any more
	}
	others, err := i.changedFiles(ctx, commit)
	return InBoth(changed, others), err
}

// InBoth are the names that are in both lists; nil: none.
func InBoth(some, others []string) []string {
	there := make(map[string]bool, len(others))
	for _, name := range others {
		there[name] = true
	}
	var both []string
	for _, name := range some {
		if there[name] {
			both = append(both, name)
		}
	}
	return both
}
