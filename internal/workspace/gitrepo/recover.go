package gitrepo

import (
	"context"

	"forage"
	"forage/internal/workspace"
)

// Keep makes a ref in the host's repository, below RecoveryRefs, that holds all of w's work, uncommitted files
// included, and returns it.
func Keep(ctx context.Context, w forage.Workspace, sandbox, scratch string) ([]workspace.Recovery, error) {
	return nil, forage.Errorf(forage.ErrUnsupported, "keeping removed work is not in this version")
}

// RecoveryRefs is where recovery refs are: RecoveryRefs + SANDBOX/TIME (RFC 3339 in UTC, without colons)/REF.
const RecoveryRefs = "refs/forage/recovery/"
