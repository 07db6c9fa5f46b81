package hostexec

import (
	"os/exec"
	"syscall"
	"time"
)

// settled is how long a program is watched that goes on by itself: one that can't do its work ends
// in less.
const settled = time.Second

// Leave starts a program that goes on by itself, such as a browser, with the whole environment of
// the user and none of our streams. The error is why it could not be started, or that it failed at
// once.
func Leave(name string, args ...string) error {
	program, err := Find(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(settled):
		return nil
	}
}
