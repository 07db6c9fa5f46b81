package review

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestApplyWaitsForNothingInTheRepository: a sandbox may have made the repository, or what is in the place of a file of it.
func TestApplyWaitsForNothingInTheRepository(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"index": false, "BISECT_START": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, "a", "2\n")
			b.commit("work")
			s := b.open()
			file := filepath.Join(b.user.Dir, ".git", name)
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := s.Apply(t.Context(), Options{})
				ended <- err
			}()
			select {
			case err := <-ended:
				if (err == nil) != applied {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(5 * time.Minute):
				t.Fatal("it waits")
			}
		})
	}
}
