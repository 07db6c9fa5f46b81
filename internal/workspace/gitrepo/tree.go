package gitrepo

import (
	"context"

	"forage"
)

// Tree is the content of a working folder as an object of git.
type Tree struct {
	ID string // hex
	// Nested are repositories inside the folder, relative to it. They are left out: git
	// would have to look into them.
	Nested []string
}

// WriteTree makes a tree of what is in folder now: tracked and untracked files, without what is
// ignored. Nothing in folder is executed and no filter runs. index is a file of ours that makes the
// next call quicker; it may be absent. Objects go to the shadow's repository.
func (s *Shadow) WriteTree(ctx context.Context, folder, index string) (Tree, error) {
	return Tree{}, forage.Errorf(forage.ErrUnsupported, "making trees is not in this version")
}
