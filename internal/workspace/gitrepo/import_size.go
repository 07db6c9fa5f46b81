package gitrepo

import (
	"bytes"
	"context"
	"errors"

	"forage"
)

// Bounds of the files of a commit from inside. A few objects are enough for a tree that names billions of files: each
// git on the host that makes an index of one, as `git status` does, would take all memory for it.
const (
	maxTreeFiles = 4_000_000
	maxTreeNames = 256 << 20 // bytes of their paths
	maxTreePath  = 4096      // bytes of one: PATH_MAX
)

// Sized refuses commits with more files than any working folder has. It takes one process for each: who is inside must
// not choose how many there are.
func (s *Shadow) Sized(ctx context.Context, tips ...string) error {
	for _, tip := range tips {
		c := treeCount{}
		_, err := s.Git(ctx, Call{
			Args: []string{"ls-tree", "-r", "-z", "--full-tree", "--name-only", "--end-of-options", tip}, Writer: &c, Env: readsHostile,
		})
		if c.tooMany() {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the commit %.12s from inside has more than %d files, or longer paths than a file can have", tip, maxTreeFiles),
				"take them out of the commit; until then the commits stay inside")
		}
		if err != nil && ctx.Err() == nil {
			return errors.Join(forage.Errorf(forage.ErrRefused, "the files of the commit %.12s from inside can't be listed", tip), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// treeCount counts names that end with a zero byte, and fails when there are too many or one is too long.
type treeCount struct{ files, bytes, path, longest int }

var errTooMany = errors.New("too many files")

func (c *treeCount) tooMany() bool {
	return c.files > maxTreeFiles || c.bytes > maxTreeNames || c.longest > maxTreePath
}

// Write implements io.Writer.
func (c *treeCount) Write(names []byte) (int, error) {
	c.files += bytes.Count(names, []byte{0})
	c.bytes += len(names)
	for i, part := range bytes.Split(names, []byte{0}) {
		if i > 0 {
			c.path = 0
		}
		c.path += len(part)
		c.longest = max(c.longest, c.path)
	}
	if c.tooMany() {
		return 0, errTooMany
	}
	return len(names), nil
}
