package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/control"
	"forage/internal/netns"
	"forage/internal/seccomp"
)

// Program is our executable inside, on a read-only mount. The guest starts itself
// again from there, never from /proc/self/exe: what the agent can reach
// through a process of ours must not be the host's file.
const Program = forage.RunPath + "/forage-guest"

// controlFD is the descriptor at which a guest finds its control channel. InfoFD is the one at
// which a helper says which process is the guest.
const (
	controlFD = 3
	InfoFD    = 4
)

// Entered is a sandbox as its first process finds it.
type Entered struct {
	Control *control.Conn
	Guest   json.RawMessage // Request.Guest
	SSH     net.Listener    // where clients of SSH arrive
	Log     *os.File        // Request.Log; nil without a session
	// Forward are the sandbox's listening sockets where the host does not have them: what comes
	// there goes over a stream that Open opens.
	Forward netns.Listeners
	Open    func() (net.Conn, error)
	// Confine ties the calling OS thread, and all that is forked from it, to what an agent may
	// do. The guest starts everything from one locked thread that has called it once; the rest of
	// the guest stays outside, so that the agent can't signal it.
	Confine func() error
}

// stepError is a step of the set-up that failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// Enter turns the calling process, which Start has cloned into fresh
// namespaces, into the first process of a sandbox: it builds the root
// filesystem and the network, hands the listening sockets to the host, and gives up
// every privilege. It must be the first thing the process does. A failure has
// been reported to the host when Enter returns it; the process then has to end.
func Enter() (*Entered, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.CloseOnExec(controlFD)
	// Files that are not ours: all but what Go's runtime has made for itself, which are no files of
	// any kind (anonymous inodes).
	for fd := controlFD + 1; fd <= lastStray; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != 0 {
			unix.Close(fd)
		}
	}
	l, err := takeLink(os.NewFile(controlFD, "control"))
	if err != nil {
		return nil, err
	}
	entered, err := enter(l)
	if err != nil {
		if !errors.Is(err, errTried) {
			err = errors.Join(err, reportFailure(l.control, err))
		}
		l.close()
		return nil, err
	}
	return entered, nil
}

// lastStray is as far as Enter looks for them. Whatever the host's process had inherited is closed by
// spawn; only what it opened without close-on-exec while it cloned us can be here,
// at the lowest free numbers.
const lastStray = 31

func reportFailure(channel *control.Conn, err error) error {
	failure := control.Failure{Step: "entering the sandbox", Error: err.Error(), Hint: forage.Hint(err)}
	if step, ok := errors.AsType[*stepError](err); ok {
		failure.Step, failure.Error = step.step, step.err.Error()
	}
	frame, err := control.Encode(control.Failed, failure)
	if err != nil {
		return err
	}
	return channel.Send(frame)
}

func enter(l link) (*Entered, error) {
	background := startBackground()
	b, err := receiveBoot(l)
	if err != nil {
		return nil, err
	}
	b.background = background
	defer b.close()
	background.options <- seccomp.Options{NestedNamespaces: b.boot.Nesting, KeepMounts: len(b.boot.Protect) > 0}
	if b.boot.Trial {
		return nil, b.try(l.control)
	}
	contained := slices.Contains([]string{ContainerArgument, ContainerStreamArgument}, os.Args[1])
	leave := step{"changing the root", b.pivot}
	if contained {
		leave = step{"becoming the agent", b.become}
	} else if err := b.build(); err != nil {
		return nil, err
	}
	n, err := take(background.network)
	if err != nil {
		return nil, &stepError{"setting up the network", err}
	}
	defer n.Close()
	if err := do(leave, step{"giving up privileges", b.harden}); err != nil {
		return nil, err
	}
	b.closeFolders() // before the host goes on
	frame, err := control.Encode(control.Listeners, n.Report)
	if err != nil {
		return nil, err
	}
	e := &Entered{Control: l.control, Guest: b.boot.Guest, Confine: b.confinement(contained)}
	if l.session != nil {
		return e, errors.Join(l.inside(e, n, b.boot.HasLog), l.control.Send(frame))
	}
	if err := l.control.Send(frame, n.Files()...); err != nil {
		return nil, err
	}
	ssh := b.take(0)
	defer ssh.Close()
	if e.SSH, err = net.FileListener(ssh); err != nil {
		return nil, fmt.Errorf("the SSH socket: %w", err)
	}
	if b.boot.HasLog {
		e.Log = b.take(1)
	}
	return e, nil
}

func receiveBoot(l link) (*builder, error) {
	frame, files, err := l.control.Receive()
	if err != nil {
		return nil, err
	}
	b := &builder{files: files, tmpfs: -1, root: -1}
	if frame.Kind != control.Boot {
		b.close()
		return nil, fmt.Errorf("the host sent %q before %q", frame.Kind, control.Boot)
	}
	if b.boot, err = decodeBoot(frame.Blob); err != nil {
		b.close()
		return nil, err
	}
	wanted := 1
	if b.boot.HasLog {
		wanted++
	}
	if len(files) < wanted && l.session == nil && !b.boot.Trial {
		b.close()
		return nil, fmt.Errorf("%d descriptors came with the boot frame", len(files))
	}
	return b, nil
}
