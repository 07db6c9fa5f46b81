package gateway

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/guest/wire"
	"forage/internal/hostexec"
)

// pick serves a session with this program's own screen, on a terminal of the host's. It ends with
// the client.
func (c *client) pick(channel ssh.Channel, requests <-chan *ssh.Request, request *ssh.Request, wanted *wire.Terminal) error {
	screen, inner, err := openTerminal()
	if err != nil {
		return err
	}
	defer screen.Close()
	cmd := hostexec.Self(c.server.Picker...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inner, inner, inner
	cmd.Env = append(cmd.Env, forage.ViaVariable+"=key "+c.key.Fingerprint(), "SSH_CONNECTION=gateway") // nobody sits at this machine
	if !strings.ContainsAny(wanted.Term, "/\x00") {                                                     // else it would lead to a file
		cmd.Env = append(cmd.Env, "TERM="+wanted.Term)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	resize(screen, wanted.Columns, wanted.Rows)
	err = cmd.Start()
	inner.Close()
	if err != nil {
		return err
	}
	request.Reply(true, nil)
	c.server.Log.Info("picker", "key", c.key.Fingerprint())
	go func() {
		_, _ = io.Copy(screen, channel)
		screen.Close() // hangs up
	}()
	go func() {
		for r := range requests {
			var size struct{ Columns, Rows, Width, Height uint32 }
			ok := r.Type == "window-change" && ssh.Unmarshal(r.Payload, &size) == nil
			if ok {
				resize(screen, size.Columns, size.Rows)
			}
			r.Reply(ok, nil)
		}
		screen.Close()
	}()
	_, _ = io.Copy(channel, screen) // until nothing has the terminal open any more
	screen.Close()
	_ = cmd.Wait() // what went wrong was said on the screen
	status := ssh.Marshal(struct{ Code uint32 }{uint32(max(0, cmd.ProcessState.ExitCode()))})
	_ = channel.CloseWrite()
	_, _ = channel.SendRequest("exit-status", false, status)
	return nil
}

// openTerminal makes a terminal (pty(7)): its outer and its inner end.
func openTerminal() (outer, inner *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	outer = os.NewFile(uintptr(fd), "ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		inner, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		outer.Close()
	}
	return outer, inner, err
}

// resize sets the size of a terminal. One that is gone has none.
func resize(screen *os.File, columns, rows uint32) {
	if conn, err := screen.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
		})
	}
}
