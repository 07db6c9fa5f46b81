package autorun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// TestRepositoriesInARepositoryAreBounded: whoever is inside can't have us read for days, and what isn't read counts as changed.
func TestRepositoriesInARepositoryAreBounded(t *testing.T) {
	defer func(before int64) { maxMetadata = before }(maxMetadata)
	maxMetadata = 4 << 20
	root := t.TempDir()
	git := filepath.Join(root, "vendor/.git")
	large := filepath.Join(root, "large")
	if err := errors.Join(os.MkdirAll(git, 0o700), os.WriteFile(large, make([]byte, maxContent), 0o600)); err != nil {
		t.Fatal(err)
	}
	before, err := Take(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	found, err := Scan(t.Context(), root, before)
	if err != nil || len(found) > 0 {
		t.Fatalf("as it was, there are %v, %v", found, err)
	}
	for i := range 20 {
		hooks := fmt.Sprintf("%s/modules/%d/hooks", git, i)
		if err := errors.Join(os.MkdirAll(hooks, 0o700), os.WriteFile(hooks+"/../HEAD", nil, 0o600), os.Link(large, hooks+"/pre-commit")); err != nil {
			t.Fatal(err)
		}
	}
	s, err := scan(t.Context(), root, before, nil)
	if err != nil {
		t.Fatal(err)
	}
	if read := s.read.Load(); read > maxMetadata+maxContent {
		t.Errorf("%d bytes are read", read)
	}
	if found := s.results(); len(found) != 1 || found[0].Path != "vendor/.git" {
		t.Errorf("found are %v", found)
	}
}

// brief is a context that ends when it has been asked a few times.
type brief struct {
	context.Context
	asked atomic.Int64
}

func (b *brief) Err() error {
	if b.asked.Add(1) > 100 {
		return context.Canceled
	}
	return nil
}

// TestALookCanBeGivenUp: it ends when nobody waits for it any more.
func TestALookCanBeGivenUp(t *testing.T) {
	root := t.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d", root, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx := &brief{Context: context.Background()}
	if _, err := Scan(ctx, root, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if asked := ctx.asked.Load(); asked > 200 {
		t.Errorf("it goes on for %d more files", asked-100)
	}
}
