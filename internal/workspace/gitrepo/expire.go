package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"forage/internal/workspace"
)

// Expire lets kept work go for good: its ref below RecoveryRefs, its folder, or the repository of a removed clone. A branch is not ours any
// more, and what is gone already is as good as expired.
func Expire(ctx context.Context, kept workspace.Recovery, scratch string) error {
	if kept.Folder != "" {
		return RemoveTree(kept.Folder)
	}
	if workspace.IsKept(kept.Store) { // of a clone: nothing else is in it
		return RemoveStore(kept.Store)
	}
	if !strings.HasPrefix(kept.Ref, RecoveryRefs) {
		return nil
	}
	return withStore(ctx, kept.Store, scratch, func(s *Shadow) error { return s.dropRecovery(ctx, kept.Ref) })
}

// ExpireBelow lets every ref go below kept.Ref but those of which spared says so.
func ExpireBelow(ctx context.Context, kept workspace.Recovery, spared func(ref string) bool, scratch string) error {
	return withStore(ctx, kept.Store, scratch, func(s *Shadow) error {
		refs, err := s.Repository.Refs(ctx, scratch)
		if err != nil {
			return err
		}
		for ref := range refs.Values {
			if strings.HasPrefix(ref, kept.Ref) && strings.HasPrefix(ref, RecoveryRefs) && !spared(ref) {
				if err := s.dropRecovery(ctx, ref); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (s *Shadow) dropRecovery(ctx context.Context, ref string) error {
	_, err := s.Git(ctx, Call{Args: []string{"update-ref", "--no-deref", "-d", ref}})
	return err
}

// withStore runs f with the repository at a path, if it is there.
func withStore(ctx context.Context, path, scratch string, f func(*Shadow) error) error {
	r, err := Open(ctx, path)
	if errors.Is(err, ErrNoRepository) || errors.Is(err, fs.ErrNotExist) || gone(path) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
