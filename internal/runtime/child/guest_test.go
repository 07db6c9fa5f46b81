package child

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"forage/internal/control"
)

// script is what the tests' guest runs inside: Request.Guest.
type script struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Name string   `json:"name"` // argv[0] instead of Argv[0]
	// Leak has the guest put all that it has open into a message to the next client of the SSH
	// socket.
	Leak bool `json:"leak"`
}

// outcome is what it answers, as an Answer's Session.
type outcome struct {
	Out  string
	Code int
}

// guestMain is a guest that starts one command and says what came of it.
func guestMain() error {
	e, err := Enter()
	if err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGQUIT, unix.SIGINT)
	var s script
	if err := json.Unmarshal(e.Guest, &s); err != nil {
		return err
	}
	if s.Leak {
		if err := leak(e.SSH); err != nil {
			return err
		}
	}
	result := make(chan outcome)
	fail := make(chan error, 1)
	go onOwnThread(func() {
		if err := e.Confine(); err != nil {
			fail <- err
			return
		}
		if len(s.Argv) > 0 {
			result <- execute(s)
		}
		select {}
	})
	for {
		select {
		case err := <-fail:
			return err
		case r := <-result:
			text, _ := json.Marshal(r)
			f, _ := control.Encode(control.Answer, control.AnswerBody{Session: string(text)})
			if err := e.Control.Send(f); err != nil {
				return err
			}
		case err := <-closed(e.Control):
			return err
		}
	}
}

// leak sends every descriptor of this process beside a byte.
func leak(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	var all []int
	for fd := 0; fd < 64; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			all = append(all, fd)
		}
	}
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(all...), nil)
	return err
}

// onOwnThread runs f on an OS thread of its own that is not the process's first.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		done := make(chan struct{})
		go func() { defer close(done); onOwnThread(f) }() // elsewhere, as this thread is taken
		<-done
		return
	}
	f()
}

func closed(c *control.Conn) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.Receive()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		ended <- err
	}()
	return ended
}

func execute(s script) outcome {
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	if s.Name != "" {
		cmd.Args[0] = s.Name
	}
	cmd.Env = s.Env
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return outcome{string(out) + err.Error(), 127}
	}
	return outcome{string(out), code}
}
