package gitrepo

import (
	"context"

	"forage"
	"forage/internal/workspace"
)

// Import brings the commits of the private metadata to w.Branch in the host's repository. The private
// git directory is read as data: refs by our own reader, loose objects and packs as bytes, which git
// takes in from a stream and checks (index-pack --strict) in a store of our own, before they come near the
// user's. A branch that the user moved meanwhile is not touched: that is workspace.Status.Problem.
func Import(ctx context.Context, w forage.Workspace, scratch string) (workspace.Update, error) {
	return workspace.Update{}, forage.Errorf(forage.ErrUnsupported, "importing is not in this version")
}

// Unsaved says which work is nowhere but in w. What Import has not brought in counts as Elsewhere.
func Unsaved(ctx context.Context, w forage.Workspace, scratch string) (workspace.Status, error) {
	return workspace.Status{}, forage.Errorf(forage.ErrUnsupported, "looking for unsaved work is not in this version")
}

// Keep makes a ref in the host's repository, below RecoveryRefs, that holds all of w's work, uncommitted files
// included, and returns it.
func Keep(ctx context.Context, w forage.Workspace, sandbox, scratch string) ([]workspace.Recovery, error) {
	return nil, forage.Errorf(forage.ErrUnsupported, "keeping removed work is not in this version")
}

// RecoveryRefs is where recovery refs are: RecoveryRefs + SANDBOX/TIME (RFC 3339 in UTC, without colons)[/REF].
const RecoveryRefs = "refs/forage/recovery/"
