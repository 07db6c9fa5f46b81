package gitrepo

import (
	"path/filepath"
	"slices"

	"forage/internal/workspace"
)

// checkOwner refuses another user's repository when root calls: see workspace.CheckOwner. Git itself does so too
// (safe.directory, git-config(1)), but not where it is told the git directory, as in a shadow.
func (r *Repository) checkOwner() error {
	paths := []string{r.GitDir, r.Common}
	if r.WorkTree != "" {
		paths = []string{r.WorkTree, filepath.Join(r.WorkTree, ".git"), r.GitDir, r.Common}
	}
	for _, name := range slices.Concat(shared[:], []string{"worktrees"}) {
		if path := filepath.Join(r.Common, name); !gone(path) {
			paths = append(paths, path)
		}
	}
	return workspace.CheckOwner(paths...)
}
