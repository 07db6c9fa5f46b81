package gitrepo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testgit"
)

func TestGitDoesNotWaitForAFIFO(t *testing.T) {
	for _, name := range []string{".gitignore", "deep/er/.gitattributes", "deep/er/.git/HEAD"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := testgit.Init(t, t.TempDir())
			repo.Commit("a.txt", "a\n")
			fifo := filepath.Join(repo.Dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Join(repo.Dir, "deep/er"), 0o700), os.MkdirAll(filepath.Dir(fifo), 0o700), unix.Mkfifo(fifo, 0o600), os.WriteFile(filepath.Join(repo.Dir, "deep/er/b.txt"), []byte("b\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			r, err := Open(t.Context(), repo.Dir)
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Staging(t.TempDir(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.WriteTree(t.Context(), Folder{Path: repo.Dir, Base: repo.Git("rev-parse", "HEAD")})
			if !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), fifo) {
				t.Errorf("with a FIFO at %s: %v", name, err)
			}
		})
	}
}

// TestGitDoesNotWaitForALateFIFO: what git waits for may have come to be there while it ran.
func TestGitDoesNotWaitForALateFIFO(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := unlessHeld(t.Context(), dir)
		defer stop()
		time.Sleep(10 * heldPatience)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatalf("nothing holds it up: %v", context.Cause(ctx))
		}
		if err := unix.Mkfifo(filepath.Join(dir, ".gitignore"), 0o600); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Hour):
		}
		if err := context.Cause(ctx); !errors.Is(err, errHeld) {
			t.Errorf("a FIFO has come to be there: %v", err)
		}
	})
}

func TestFoldersAndLinksHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "a/.gitignore"), 0o700),
		os.Symlink("nowhere", filepath.Join(dir, ".gitattributes")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if found := heldBy(t.Context(), dir); found != "" {
		t.Errorf("%s", found)
	}
}
