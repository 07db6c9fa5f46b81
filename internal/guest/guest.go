// Package guest is the first process of a sandbox (PID 1): it reaps, serves
// SSH, runs init commands, keeps the agent's session and ends everything when told to. What
// isolates it is built before by the runtime. The host believes nothing it says.
//
// Orders come over the control channel; when that ends, so does everything.
package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/control"
	"forage/internal/deadline"
	"forage/internal/guest/boot"
	"forage/internal/guest/forward"
	"forage/internal/guest/session"
	"forage/internal/guest/sshd"
	"forage/internal/netns"
)

// The words that main finds as argv[0] of a process that the guest started
// from this same program, to dispatch to Limit and SFTP.
const (
	LimitName = boot.LimitName
	SFTPName  = sshd.SFTPName
)

// Limit is main for LimitName; args are those after argv[0]. It returns, with the
// exit code, only when the program that it should become can't be executed.
func Limit(args []string) int { return boot.Limit(args) }

// SFTP is main for SFTPName. It returns the exit code.
func SFTP() int { return sshd.SFTP() }

// Options is what the runtime hands to the guest. The guest owns it from then on.
type Options struct {
	Conn   *control.Conn
	Config json.RawMessage // a Config
	SSH    net.Listener    // where clients reach it
	Log    *os.File        // write end of the log's pipe; nil without a session
	// Program is where this program can be executed inside; it is started again as
	// the limit shim and as the SFTP server. "" is /proc/self/exe.
	Program string
	// Confine puts on the calling thread what everything started inside
	// inherits and this process must not have. Nil: nothing.
	Confine func() error
	// Forward are the sandbox's own listening sockets where the host can't have them: what comes
	// there goes over a stream that Open opens.
	Forward netns.Listeners
	Open    func() (net.Conn, error)
	// LogFolders are where the FIFO for the agent's output may be made; the
	// first that can be written is. Nil is forage.RunPath, /run and /tmp.
	LogFolders []string
}

// The guest is small and mostly idle: it rather collects garbage than grows,
// and needs no more threads than that on a large host.
const (
	gcPercent  = 50
	processors = 4
)

// Serve is the life of the guest. It must be called as PID 1, and returns when nothing
// else runs inside; the process then has to exit at once. An error says that it could not
// take over.
func Serve(options Options) error {
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(min(processors, runtime.NumCPU()))
	unix.Umask(0o022)
	g, err := newGuest(options)
	if err != nil {
		refuse(options.Conn, err)
		return err
	}
	go g.sshd.Serve(g.listener)
	forward.Serve(options.Forward, options.Open)
	return g.obey()
}

// guest is the state of PID 1.
type guest struct {
	options  Options
	config   Config
	tree     *boot.Tree
	sshd     *sshd.Server
	listener net.Listener
	ready    chan struct{} // closed when programs may be started
	session  *session.Session

	log atomic.Pointer[session.Log] // nil without a session; made while an order to stop may come

	ctx    context.Context // ends when everything does
	cancel context.CancelFunc
}

func newGuest(options Options) (*guest, error) {
	g := &guest{options: options, listener: options.SSH, ready: make(chan struct{})}
	if err := json.Unmarshal(options.Config, &g.config); err != nil {
		return nil, fmt.Errorf("reading the guest's configuration: %w", err)
	}
	if options.Program == "" {
		options.Program = "/proc/self/exe"
	}
	var err error
	if g.tree, err = boot.New(boot.Options{
		Program:   options.Program,
		Confine:   options.Confine,
		TasksMax:  g.config.TasksMax,
		KillFirst: g.config.KillFirst,
	}); err != nil {
		return nil, err
	}
	g.sshd, err = sshd.New(sshd.Options{
		Program:        options.Program,
		HostKey:        g.config.HostKey,
		AuthorizedKeys: g.config.AuthorizedKeys,
		Tree:           g.tree,
		Env:            g.config.Env,
		Dir:            g.config.Dir,
		Ready:          g.ready,
	})
	if err != nil {
		return nil, err
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// begin makes the sandbox usable: the session's needs are checked first, then
// the init commands run, then the agent starts.
func (g *guest) begin() (step string, err error) {
	if g.config.Session {
		if err := g.prepareSession(); err != nil {
			return "preparing the agent's session", err
		}
	}
	if err := g.tree.Init(g.ctx, g.config.Init, g.config.Env, g.config.Dir, g.logWriter()); err != nil {
		return "running the init commands", err
	}
	if g.session != nil {
		ctx, cancel := deadline.Within(g.ctx, deadline.Answer, "tmux")
		defer cancel()
		if err := g.session.Start(ctx); err != nil {
			return "starting the agent", err
		}
	}
	close(g.ready)
	return "", nil
}

func (g *guest) prepareSession() error {
	var log *session.Log
	if g.options.Log != nil {
		folders := g.options.LogFolders
		if folders == nil {
			folders = []string{forage.RunPath, "/run", "/tmp"}
		}
		var err error
		if log, err = session.NewLog(g.options.Log, folders...); err != nil {
			return err
		}
		g.log.Store(log)
		go log.Copy()
	}
	var err error
	g.session, err = session.New(session.Options{
		Tree: g.tree, Env: g.config.Env, Dir: g.config.Dir, Command: g.config.Command, Log: log,
	})
	return err
}

// logWriter is where the init commands' output goes besides, nil for nowhere.
func (g *guest) logWriter() io.Writer {
	if log := g.log.Load(); log != nil {
		return log
	}
	return nil
}

// end ends everything inside, at once if grace is 0.
func (g *guest) end(grace time.Duration) {
	g.cancel()
	g.listener.Close()
	g.sshd.Close()
	if grace > 0 {
		g.tree.Stop(grace)
		if log := g.log.Load(); log != nil {
			log.Close()
		}
	} else {
		g.tree.Kill()
	}
}

// refuse waits for the host to say Go, and tells it then why the guest can't be used.
func refuse(conn *control.Conn, cause error) {
	for {
		frame, files, err := conn.Receive()
		for _, file := range files {
			file.Close()
		}
		if err != nil || frame.Kind == control.Stop {
			return
		}
		if frame.Kind != control.Go {
			continue
		}
		reply, err := control.Encode(control.Failed, failure("starting the guest", cause))
		if err != nil || conn.Send(reply) != nil {
			return
		}
	}
}

func failure(step string, err error) control.Failure {
	return control.Failure{Step: step, Error: bounded(err.Error()), Hint: forage.Hint(err)}
}

// maxText bounds what is said of an error, in bytes: frames to the host are
// small (control.FromGuest), and JSON may need six bytes for one.
const maxText = 9 << 10

func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + "..."
}

var errUnexpected = errors.New("unexpected frame")
