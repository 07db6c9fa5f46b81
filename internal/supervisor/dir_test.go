package supervisor

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"forage"
)

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	if Alive(dir) {
		t.Fatal("alive before anybody took it")
	}
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !Alive(dir) {
		t.Fatal("not alive while held")
	}
	if _, err := Acquire(dir); forage.ExitCode(err) != 7 {
		t.Fatalf("a second one got it too: %v", err)
	}
	gone := make(chan error)
	go func() { gone <- WaitGone(dir) }()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("the folder is left: %v", err)
	}
	if err := WaitGone(dir); err != nil {
		t.Fatalf("waiting for what is not there: %v", err)
	}
}

// Looking whether a sandbox is alive must not keep it from being started.
func TestLookingDoesNotTakeTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	stop := make(chan struct{})
	var lookers sync.WaitGroup
	for range 4 {
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Alive(dir)
				}
			}
		})
	}
	for range 500 {
		lock, err := Acquire(dir)
		if err != nil {
			t.Error(err)
			break
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	lookers.Wait()
}
