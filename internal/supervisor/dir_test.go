package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostexec"
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

// Those who take a sandbox's lock one after the other never get in each other's way, and none loses what it put into the folder.
func TestLockIsHandedOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	var takers sync.WaitGroup
	for range 4 {
		takers.Go(func() {
			for range 300 {
				lock, err := Acquire(dir)
				if errors.Is(err, forage.ErrRefused) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				note := filepath.Join(dir, "note")
				if err := errors.Join(os.WriteFile(note, nil, 0o600), os.Remove(note), os.WriteFile(note, nil, 0o600)); err != nil {
					t.Errorf("in a folder whose lock is held: %v", err)
				}
				if err := lock.Release(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	takers.Wait()
}

// Whoever waited for a supervisor's end holds the lock for a moment. One that is stopped in that moment is not waited for for good.
func TestLockOfStoppedWaiter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	lock, err := acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock.close()
	waiter, err := openLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close()
	if err := setLock(waiter, unix.F_OFD_SETLK, unix.F_RDLCK); err != nil {
		t.Fatal(err)
	}
	acquired := make(chan error, 1)
	go func() {
		_, err := Acquire(dir)
		acquired <- err
	}()
	select {
	case err := <-acquired:
		if !errors.Is(err, errWaiter) {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it waits in vain")
	}
}

// What a program does that outlives a killed supervisor, or run, is done before anybody else has the sandbox.
func TestLockIsHeldByWhatOutlivesUs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	open := hostexec.Command{Argv: []string{"sh", "-c", "readlink /proc/$$/fd/*"}, Outlives: true}
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := lock.file.Name()
	if out, err := hostexec.Run(t.Context(), open); !strings.Contains(string(out.Stdout), path) {
		t.Errorf("it has open %q (%v), and not %s", out.Stdout, err, path)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if out, _ := hostexec.Run(t.Context(), open); strings.Contains(string(out.Stdout), path) {
		t.Errorf("it has a lock open that was given up: %q", out.Stdout)
	}
}
