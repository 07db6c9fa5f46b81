package sshd

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// terminal is our end of a pseudoterminal (pty(7)).
type terminal struct {
	server *Server
	master *os.File
	once   sync.Once
}

// defaultColumns and defaultRows stand for a size that the client didn't know.
const (
	defaultColumns = 80
	defaultRows    = 24
)

func (s *Server) openTerminal(columns, rows uint32) (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a terminal: %w", err)
	}
	t := &terminal{server: s, master: os.NewFile(uintptr(fd), "ptmx")}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.master.Close()
		return nil, fmt.Errorf("making a terminal: %w", err)
	}
	if columns == 0 || rows == 0 {
		columns, rows = defaultColumns, defaultRows
	}
	if err := t.resize(columns, rows); err != nil {
		t.master.Close()
		return nil, err
	}
	s.mu.Lock()
	s.terminals[t] = true
	s.mu.Unlock()
	return t, nil
}

// slave opens the program's end, in the modes that the client wants, through the master, so
// that no path is looked up (TIOCGPTPEER, ioctl_tty(2)).
func (t *terminal) slave(modes []byte) (*os.File, error) {
	var slave *os.File
	var opErr error
	err := t.control(func(fd int) {
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			opErr = errno
			return
		}
		slave = os.NewFile(peer, "terminal")
		var set *unix.Termios
		if set, opErr = unix.IoctlGetTermios(int(peer), unix.TCGETS); opErr == nil {
			set.Iflag |= unix.IUTF8 // erasing a character is right then when it is several bytes long
			applyModes(set, modes)
			opErr = unix.IoctlSetTermios(int(peer), unix.TCSETS, set)
		}
	})
	if err == nil {
		err = opErr
	}
	if err != nil {
		return nil, fmt.Errorf("opening a terminal: %w", err)
	}
	return slave, nil
}

// resize sets the size in characters; the kernel tells the program (SIGWINCH).
func (t *terminal) resize(columns, rows uint32) error {
	var opErr error
	err := t.control(func(fd int) {
		opErr = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: bounded(columns), Row: bounded(rows)})
	})
	if err != nil {
		return err
	}
	return opErr
}

func bounded(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }

// foreground is the process group that the terminal shows, 0 if there is none.
func (t *terminal) foreground() int {
	group := 0
	t.control(func(fd int) { group, _ = unix.IoctlGetInt(fd, unix.TIOCGPGRP) })
	return group
}

// copyInput types what the client sends. When the client has no more the
// program is told as a user would: with the end-of-file character.
func (t *terminal) copyInput(channel io.Reader) {
	buf := make([]byte, 4<<10)
	midLine := false
	for {
		n, err := channel.Read(buf)
		if n > 0 {
			if _, err := t.master.Write(buf[:n]); err != nil {
				return
			}
			midLine = buf[n-1] != '\n' && buf[n-1] != '\r'
		}
		if err != nil {
			break
		}
	}
	var modes *unix.Termios
	t.control(func(fd int) { modes, _ = unix.IoctlGetTermios(fd, unix.TCGETS) })
	if modes == nil || modes.Lflag&unix.ICANON == 0 || modes.Cc[unix.VEOF] == 0 {
		return
	}
	eof := []byte{modes.Cc[unix.VEOF]}
	if midLine { // the first ends the line only (termios(3))
		eof = append(eof, eof[0])
	}
	t.master.Write(eof)
}

func (t *terminal) control(f func(fd int)) error {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// close hangs up: the kernel sends SIGHUP to the session.
func (t *terminal) close() {
	t.once.Do(func() {
		t.master.Close()
		t.server.mu.Lock()
		delete(t.server.terminals, t)
		t.server.mu.Unlock()
	})
}
