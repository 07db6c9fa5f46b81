package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"forage"
	"forage/internal/workspace"
)

// Expire lets kept work go for good: its ref below RecoveryRefs, its folder, or the repository of a removed clone. A branch is not ours any
// more, and what is gone already is as good as expired.
func Expire(ctx context.Context, kept workspace.Recovery, scratch string) (err error) {
	if kept.Folder != "" {
		return RemoveTree(kept.Folder)
	}
	if workspace.IsKept(kept.Store) { // of a clone: nothing else is in it
		return RemoveStore(kept.Store)
	}
	if !strings.HasPrefix(kept.Ref, RecoveryRefs) {
		return nil
	}
	r, err := Open(ctx, kept.Store)
	if errors.Is(err, ErrNoRepository) || errors.Is(err, fs.ErrNotExist) || gone(kept.Store) {
		return nil
	}
	if errors.Is(err, forage.ErrRefused) { // it is another user's now, who may keep it
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", kept.Store, err)
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.Git(ctx, Call{Args: []string{"update-ref", "--no-deref", "-d", kept.Ref}})
	return err
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
