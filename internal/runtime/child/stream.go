package child

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"forage/internal/accept"
	"forage/internal/control"
	"forage/internal/mux"
	"forage/internal/netns"
	"forage/internal/runtime"
)

// link is one end of what host and guest speak over. Where descriptors cross it is the control
// channel. Else it is a session; the host opens the control channel in it, then the log's stream if
// there is one, and one for each client of SSH. The guest opens one for each connection that it
// forwards.
type link struct {
	control *control.Conn
	session *mux.Session // nil where descriptors cross
}

// newLink makes the host's end, and the file that the guest takes.
func (r *Runtime) newLink() (link, *os.File, error) {
	host, guest, err := control.Pair()
	if err != nil {
		return link{}, nil, err
	}
	var l link
	if !r.config.Stream {
		l.control, err = control.New(host, control.FromGuest())
	} else if l.session, err = newSession(host, true); err == nil {
		var conn net.Conn
		if conn, err = l.session.Open(context.Background()); err == nil {
			l.control = control.NewConn(conn, control.FromGuest())
		} else {
			l.session.Close()
		}
	}
	if err != nil {
		guest.Close()
	}
	return l, guest, err
}

// takeLink makes the guest's end.
func takeLink(file *os.File) (l link, err error) {
	if len(os.Args) < 2 || os.Args[1] != StreamArgument && os.Args[1] != ContainerStreamArgument {
		l.control, err = control.New(file, control.FromHost())
		return l, err
	}
	if l.session, err = newSession(file, false); err != nil {
		return l, err
	}
	conn, err := l.session.Accept()
	if err != nil {
		return l, err
	}
	l.control = control.NewConn(conn, control.FromHost())
	return l, nil
}

func newSession(file *os.File, first bool) (*mux.Session, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("taking over a stream: %w", err)
	}
	return mux.New(conn, first)
}

// close ends the link: the guest reads the end, and so does who waits here.
func (l link) close() {
	l.control.Close()
	if l.session != nil {
		l.session.Close()
	}
}

// serve leads the sandbox's log and the clients of its SSH socket through the session, where there
// is one.
func (l link) serve(ctx context.Context, req runtime.Request) error {
	if l.session == nil {
		return nil
	}
	if req.Log != nil {
		stream, err := l.session.Open(ctx)
		if err != nil {
			return err
		}
		fd, err := unix.FcntlInt(req.Log.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the log's pipe: %w", err)
		}
		log := os.NewFile(uintptr(fd), "log")
		go func() {
			defer log.Close()
			io.Copy(log, stream)
		}()
	}
	listener, err := net.FileListener(req.SSH)
	if err != nil {
		return fmt.Errorf("the SSH socket: %w", err)
	}
	go accept.Each(nil, listener, func(conn net.Conn) {
		go func() {
			stream, err := l.session.Open(context.Background())
			if err != nil {
				conn.Close()
				listener.Close() // the session has ended
				return
			}
			mux.Join(conn, stream)
		}()
	})
	return nil
}

// inside fills in what the guest has at hand where descriptors cross.
func (l link) inside(e *Entered, n netns.Network, hasLog bool) (err error) {
	if hasLog {
		stream, err := l.session.Accept()
		if err != nil {
			return err
		}
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		e.Log = write
		go io.Copy(stream, read)
	}
	e.SSH = l.session
	e.Open = func() (net.Conn, error) { return l.session.Open(context.Background()) }
	e.Forward, err = netns.FromFiles(n.Report, n.Files())
	return err
}
