package boot

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The main goroutine stays on the process's first thread.
func init() { runtime.LockOSThread() }

// spawned is the thread that a spawner begun on the first thread ends up on.
var spawned int

func TestMain(m *testing.M) {
	spawned = spawnHere()
	os.Exit(m.Run())
}

func spawnHere() int {
	thread := 0
	tree := &Tree{starts: make(chan start), options: Options{Confine: func() error {
		thread = unix.Gettid()
		return errors.New("enough")
	}}}
	close(tree.starts)
	confined := make(chan error, 1)
	tree.spawn(confined)
	if err := <-confined; err == nil {
		return 0
	}
	return thread
}

func TestFirstThreadIsNeverConfined(t *testing.T) {
	if spawned == 0 || spawned == os.Getpid() {
		t.Errorf("confined thread %d of process %d", spawned, os.Getpid())
	}
}
