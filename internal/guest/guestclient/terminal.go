package guestclient

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"forage/internal/term"
)

// defaultTerm is what every terminal description database knows.
const defaultTerm = "xterm"

// terminal is the user's terminal, as far as there is one.
type terminal struct {
	name          string   // TERM
	input, output *os.File // nil if they are no terminal
	width, height int      // fixed size; 0: the terminal's

	mu    sync.Mutex
	saved *unix.Termios // modes to go back to; nil if not raw

	screens []*term.Controls // what output passes on its way to a terminal
}

func newTerminal(command Command, stdio Stdio) *terminal {
	t := &terminal{name: command.Term, width: command.Width, height: command.Height}
	if !command.TTY {
		return t
	}
	if t.name == "" {
		t.name = os.Getenv("TERM")
	}
	if t.name == "" {
		t.name = defaultTerm
	}
	t.input, t.output = terminalFile(stdio.In), terminalFile(stdio.Out)
	return t
}

// filtered is stream, or what stands before it if it is a terminal.
func (t *terminal) filtered(stream io.Writer, command Command) io.Writer {
	if terminalFile(stream) == nil {
		return stream
	}
	t.screens = append(t.screens, &term.Controls{Out: stream, Clipboard: command.Clipboard, Title: command.Title})
	return t.screens[len(t.screens)-1]
}

// terminalFile returns stream if it is a terminal.
func terminalFile(stream any) *os.File {
	file, ok := stream.(*os.File)
	if !ok || file == nil {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return file
}

// size is in characters; zeros if it isn't known.
func (t *terminal) size() (columns, rows uint32) {
	if t.width > 0 && t.height > 0 {
		return uint32(t.width), uint32(t.height)
	}
	for _, file := range []*os.File{t.output, t.input} {
		if file == nil {
			continue
		}
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil {
			return uint32(size.Col), uint32(size.Row)
		}
	}
	return 0, 0
}

// raw reports whether there is a terminal to put into raw mode.
func (t *terminal) raw() bool { return t.input != nil }

// makeRaw passes every key on as it is (cfmakeraw, termios(3)), the terminal inside
// does the rest.
func (t *terminal) makeRaw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.input == nil || t.saved != nil {
		return nil
	}
	modes, err := unix.IoctlGetTermios(int(t.input.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("reading the terminal's modes: %w", err)
	}
	raw := *modes
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(t.input.Fd()), unix.TCSETS, &raw); err != nil {
		return fmt.Errorf("putting the terminal into raw mode: %w", err)
	}
	t.saved = modes
	return nil
}

// restore undoes makeRaw and what the program did to the screen. Answers that a program asked a
// terminal for must not be read by the user's shell: they go, and with them what was typed
// meanwhile.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := false
	for _, screen := range t.screens {
		undo, questions := screen.Undo()
		_, _ = io.WriteString(screen.Out, undo) // a terminal that is gone needs none
		asked = asked || questions
	}
	if t.saved == nil {
		return
	}
	if asked {
		_ = unix.IoctlSetInt(int(t.input.Fd()), unix.TCFLSH, unix.TCIFLUSH)
	}
	unix.IoctlSetTermios(int(t.input.Fd()), unix.TCSETS, t.saved)
	t.saved = nil
}
