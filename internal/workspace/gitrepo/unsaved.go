package gitrepo

import (
	"context"

	"forage"
	"forage/internal/workspace"
)

// Unsaved says which work is nowhere but in w. What Import has not brought in counts as Elsewhere.
func Unsaved(ctx context.Context, w forage.Workspace, scratch string) (workspace.Status, error) {
	return workspace.Status{}, forage.Errorf(forage.ErrUnsupported, "looking for unsaved work is not in this version")
}
