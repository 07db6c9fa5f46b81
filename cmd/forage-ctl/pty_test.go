package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// ptyKey is where a script keeps its terminal.
type ptyKey struct{}

// ptyState is a terminal, what runs on it and what it has shown.
type ptyState struct {
	cmd     *exec.Cmd
	master  *os.File
	mu      sync.Mutex
	shown   string // and not yet expected
	changed chan struct{}
	read    chan struct{} // closed when nothing more is read from it
	ended   chan error
}

// ptyCommand drives a terminal:
//
//	pty start ROWSxCOLS PROGRAM ARG...   run it on a terminal of that size
//	pty expect PATTERN                   wait until the terminal shows it; the next expect looks behind it
//	pty send TEXT                        type it; \r, \x03 and the like as in Go
//	pty resize ROWSxCOLS                 change the window's size
//	pty hangup                           the terminal goes away
//	pty exits CODE                       wait until the program has ended, with that status
func ptyCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: pty start|expect|send|resize|hangup|exits ...")
	}
	state := ts.Value(ptyKey{}).(*ptyState)
	verb, args := args[0], args[1:]
	if verb == "start" && len(args) > 1 {
		ts.Check(state.start(ts, args[0], args[1:]))
		return
	}
	if state.cmd == nil {
		ts.Fatalf("no terminal was started")
	}
	switch {
	case verb == "hangup" && len(args) == 0:
		ts.Check(state.master.Close())
	case len(args) != 1:
		ts.Fatalf("pty %s takes one argument", verb)
	case verb == "expect":
		ts.Check(state.expect(args[0]))
	case verb == "send":
		text, err := strconv.Unquote(`"` + args[0] + `"`)
		ts.Check(err)
		_, err = state.master.WriteString(text)
		ts.Check(err)
	case verb == "resize":
		size, err := parseSize(args[0])
		ts.Check(err)
		ts.Check(onDescriptor(state.master, func(fd int) error {
			return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size)
		}))
	case verb == "exits":
		ts.Check(state.exits(args[0]))
	default:
		ts.Fatalf("pty has no %q", verb)
	}
}

func parseSize(text string) (*unix.Winsize, error) {
	var size unix.Winsize
	if _, err := fmt.Sscanf(text, "%dx%d", &size.Row, &size.Col); err != nil {
		return nil, fmt.Errorf("%q is not ROWSxCOLS", text)
	}
	return &size, nil
}

// onDescriptor calls f with the file's descriptor, as it is.
func onDescriptor(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

func (s *ptyState) start(ts *testscript.TestScript, size string, argv []string) error {
	if s.cmd != nil {
		return errors.New("there is a terminal already: end it with `pty exits`")
	}
	window, err := parseSize(size)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), scriptEnv(ts)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: window.Row, Cols: window.Col})
	if err != nil {
		return err
	}
	// The library leaves it blocking: a read under way would then keep it open.
	if err := onDescriptor(master, func(fd int) error { return unix.SetNonblock(fd, true) }); err != nil {
		return err
	}
	s.cmd, s.master, s.shown = cmd, master, ""
	s.changed, s.read, s.ended = make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	go s.keep(master)
	go func() { s.ended <- cmd.Wait() }()
	return nil
}

// keep keeps what the terminal shows, until it is gone.
func (s *ptyState) keep(master *os.File) {
	defer close(s.read)
	buffer := make([]byte, 4096)
	for {
		n, err := master.Read(buffer)
		s.mu.Lock()
		s.shown += string(buffer[:n])
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *ptyState) expect(pattern string) error {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	deadline := time.After(conditionDeadline)
	for {
		s.mu.Lock()
		if at := expression.FindStringIndex(s.shown); at != nil {
			s.shown = s.shown[at[1]:]
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.changed:
		case <-deadline:
			return fmt.Errorf("the terminal does not show %q, but %q", pattern, s.shown)
		}
	}
}

func (s *ptyState) exits(want string) error {
	select {
	case err := <-s.ended:
		got, err := exitCode(err)
		if err != nil {
			return err
		}
		shown := s.forget()
		if strconv.Itoa(got) != want {
			return fmt.Errorf("exit status %d, want %s; the terminal shows %q", got, want, shown)
		}
		return nil
	case <-time.After(conditionDeadline):
		return fmt.Errorf("it still runs; the terminal shows %q", s.forget())
	}
}

// forget closes the terminal and returns what it shows. The next one begins with nothing of it.
func (s *ptyState) forget() string {
	s.master.Close()
	<-s.read
	s.cmd.Process.Kill()
	s.cmd = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ToValidUTF8(s.shown, "?")
}

// close ends a terminal that a script has left open.
func (s *ptyState) close() {
	if s.cmd != nil {
		s.forget()
		<-s.ended
	}
}
