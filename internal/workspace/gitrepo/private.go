package gitrepo

import (
	"context"

	"forage"
)

// Private is what CreatePrivate makes.
type Private struct {
	Repository forage.Repository // where, and over which store
	Branch     string            // inside, HEAD is this branch; "" is detached
	Base       string            // at this commit; "" is a branch without a commit
	Index      string            // an index file of the host's to begin with; "" has git make one of Base
	Remotes    bool              // carry the remotes of the host's repository, without what is secret in their URLs
}

// CreatePrivate makes the private git directory of a workspace: our own configuration, copies of the
// host's refs, and the host's objects as alternates, by the path at which they are shown inside.
func CreatePrivate(ctx context.Context, s *Shadow, p Private) error {
	return forage.Errorf(forage.ErrUnsupported, "private metadata is not in this version")
}
