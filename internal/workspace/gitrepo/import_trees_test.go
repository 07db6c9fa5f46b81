package gitrepo

import (
	"context"
	"testing"
	"time"

	"forage/internal/testgit"
)

// TestReadTreesEnds: git that ends between two questions, or is ended, holds nobody up who has yet to ask the next, or waits
// for an answer.
func TestReadTreesEnds(t *testing.T) {
	repo := testgit.Init(t, t.TempDir())
	repo.Commit("a.txt", "a\n")
	tree := repo.Git("rev-parse", "HEAD^{tree}")
	r, err := Open(t.Context(), repo.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Shadow(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader := s.readTrees(ctx)
	defer reader.close()
	if _, err := reader.tree(tree); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-reader.ended:
	case <-time.After(5 * time.Minute):
		t.Fatal("git's end is waited for in vain")
	}
	if _, err := reader.tree(tree); err == nil {
		t.Error("git answers that has ended")
	}
}
