package gitrepo

import "forage"

// TipRef is the ref at which the work of w is in the host's repository: its branch, or for a repository that jj alone uses
// a ref that jj doesn't look at. One that jj imports would move the user's own commits and bookmarks.
func TipRef(w forage.Workspace) string {
	if w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ {
		return "refs/forage/tip/" + w.Branch
	}
	return branchRef(w.Branch)
}
