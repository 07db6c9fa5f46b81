package hostexec

import (
	"os"
	"os/exec"
	"slices"
	"sync"
)

// held are the locks that programs which outlive this process hold on to.
var held struct {
	sync.Mutex
	files []*os.File
}

// Hold has each program that outlives this process have a lock of ours open too, until release is
// called: if we are killed, the lock is held until that program is done.
func Hold(lock *os.File) (release func()) {
	held.Lock()
	defer held.Unlock()
	held.files = append(held.files, lock)
	return func() {
		held.Lock()
		defer held.Unlock()
		held.files = slices.DeleteFunc(held.files, func(f *os.File) bool { return f == lock })
	}
}

// startHolding starts a program that outlives this process.
func startHolding(cmd *exec.Cmd) error {
	held.Lock()
	defer held.Unlock()
	cmd.ExtraFiles = held.files
	return cmd.Start()
}
