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

// NoteTaken remembers that a commit in the user's repository has all of the work: the files of w, and what the commits up to tip
// did. As long as a branch of the user's leads to it, those are nothing that would be lost.
func NoteTaken(w forage.Workspace, commit, tip string) error {
	if !filepath.IsAbs(w.Repository.Dir) { // the note would be in whatever folder the caller is in
		return fmt.Errorf("noting what was taken: %q is no folder of ours", w.Repository.Dir)
	}
	return os.WriteFile(w.Repository.Dir+takenSuffix, []byte(commit+" "+tip+"\n"), 0o600)
}

// Taken is what was noted last; "" is nothing.
func Taken(w forage.Workspace) (commit, tip string, err error) {
	text, err := os.ReadFile(w.Repository.Dir + takenSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	commit, tip, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	return commit, tip, err
}

// taken is Taken, if a branch of the user's still leads there.
func (i *importing) taken(ctx context.Context) (commit, tip string, err error) {
	commit, tip, err = Taken(i.w)
	if err != nil || commit == "" {
		return "", "", err
	}
	args := append([]string{"rev-list", "--max-count=1", commit, "--not"}, published(branchRef(i.w.Branch))...)
	if out, err := i.host.Git(ctx, Call{Args: args}); err != nil || len(out) > 0 {
		return "", "", nil // it is gone, or on no branch any more
	}
	return commit, tip, nil
}

// withoutTaken are the changed files that the user has not taken over as they are.
func (i *importing) withoutTaken(ctx context.Context, changed []string) ([]string, error) {
	if len(changed) == 0 {
		return changed, nil
	}
	commit, _, err := i.taken(ctx)
	if err != nil || commit == "" {
		return changed, err
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
