package child

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
)

// setupCaps is what building the inside takes, in the new user namespace only.
var setupCaps = []uintptr{
	unix.CAP_SETGID,           // drop supplementary groups
	unix.CAP_SETPCAP,          // empty the bounding set
	unix.CAP_NET_BIND_SERVICE, // listen on port 53
	unix.CAP_NET_ADMIN,        // lo, routes, rules
	unix.CAP_SYS_ADMIN,        // mounts
	unix.CAP_SYS_RESOURCE,     // /proc/sys/user
	// An overlay works with the capabilities of who mounted it, on files of the
	// one mapped user: Documentation/filesystems/overlayfs.rst, "Permission model".
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD,
}

const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// guestEnv is the guest's whole environment, for Go's runtime: no descriptors of
// the host's control groups, no looking at them time and again, and no more
// threads than the set-up has use for.
var guestEnv = []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0", "GOMAXPROCS=2"}

// Clone are namespaces that the kernel makes of a clone of this process. Root's guest gets its
// ids at once; an ordinary user's are written while it starts (idMaps.write).
type Clone struct{ Zero bool } // Zero: with a user 0, for a Container

// Command is the program itself.
func (n Clone) Command(program, argument string, who forage.Identity) (Command, error) {
	c := Command{Path: program, Argv: []string{"forage-guest", argument}, Attr: syscall.SysProcAttr{Cloneflags: namespaces, AmbientCaps: setupCaps}}
	ids := idMaps{who: who, root: os.Geteuid() == 0}
	if n.Zero {
		if err := ids.findZero(); err != nil {
			return c, err
		}
		c.Attr.AmbientCaps = nil
		for one := range uintptr(unix.CAP_LAST_CAP + 1) {
			c.Attr.AmbientCaps = append(c.Attr.AmbientCaps, one)
		}
	}
	ids.apply(&c.Attr)
	return c, nil
}

// process is a guest as the host holds it.
type process struct {
	child  int // what was started: the guest, or the helper that is its parent
	pid    int // the guest
	helper bool
	client bool       // what was started is Command.Client
	mu     sync.Mutex // over pidfd
	pidfd  int        // -1 once it has been reaped
	stderr *os.File
	done   chan struct{} // closed when it has been reaped
	status unix.WaitStatus
	said   string // on standard error: untrusted text
	ended  func() error
	left   error // what ended could not remove
}

// program is what is started as guest.
func (r *Runtime) program() string { return cmp.Or(r.config.Self, selfExe) }

func (r *Runtime) argument() string {
	if r.config.Container != nil {
		return StageArgument
	}
	if r.config.Stream {
		return StreamArgument
	}
	return Argument
}

// spawn starts a guest, with control as descriptor 3. It returns once the program has been
// executed. The OS thread that started it lives exactly as long: the kernel kills the guest when that
// thread ends, so it must not be one that Go may end.
func (r *Runtime) spawn(who forage.Identity, control, stage *os.File) (*process, error) {
	c, err := r.config.Namespaces.Command(r.program(), r.argument(), who)
	if err != nil {
		return nil, err
	}
	// Whatever this process inherited without close-on-exec stays outside.
	if err := unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("closing inherited descriptors: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	stderr, err := newStderr()
	if err != nil {
		return nil, err
	}
	files, env := []uintptr{null.Fd(), null.Fd(), stderr.Fd(), control.Fd()}, guestEnv
	if stage != nil {
		files = append(files, stage.Fd())
	}
	if c.Client || c.Hand != nil {
		files, env = files[:controlFD], c.Env
		if c.Hand == nil {
			files[0], files[1] = control.Fd(), control.Fd()
		}
	}
	var info, infoWrite *os.File
	if c.Helper && c.Hand == nil {
		if info, infoWrite, err = os.Pipe(); err != nil {
			return nil, err
		}
		defer info.Close()
		defer infoWrite.Close()
		self, err := os.Open(r.program())
		if err != nil {
			return nil, err
		}
		defer self.Close()
		files = append(files, infoWrite.Fd(), self.Fd())
	}
	p := &process{helper: c.Helper, client: c.Client, ended: c.Ended, pidfd: -1, done: make(chan struct{}), stderr: stderr}
	started := make(chan error)
	go func() {
		goruntime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		attr, err := &c.Attr, error(nil)
		if attr.Cloneflags&unix.CLONE_NEWUSER != 0 && attr.UidMappings == nil {
			p.pid, p.pidfd, err = vfork(c, files)
		} else {
			attr.Setsid, attr.Pdeathsig, attr.PidFD = true, syscall.SIGKILL, &p.pidfd
			p.pid, _, err = syscall.StartProcess(c.Path, c.Argv, &syscall.ProcAttr{Dir: c.Dir, Env: env, Files: files, Sys: attr})
		}
		p.child = p.pid
		started <- err
		if err == nil {
			p.reap()
		}
	}()
	if err := <-started; err != nil {
		stderr.Close()
		return nil, err
	}
	switch {
	case c.Hand != nil:
		pid, err := c.Hand(control, p.done)
		if err == nil && c.Helper {
			err = p.hold(c, pid)
		}
		if err != nil {
			p.kill()
			<-p.done
			return nil, forage.Errorf(forage.ErrStart, "%w: %s", err, cmp.Or(p.said, "it said nothing"))
		}
	case c.Helper:
		infoWrite.Close()
		if err := p.find(c, info); err != nil {
			p.kill()
			<-p.done
			return nil, forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%w: %s", err, cmp.Or(p.said, "it said nothing")), namespaceFix())
		}
	}
	return p, nil
}

// find learns from its helper which process is the guest.
func (p *process) find(c Command, info io.Reader) error {
	var said struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(io.LimitReader(info, 4<<10)).Decode(&said); err != nil || said.PID <= 0 {
		return fmt.Errorf("%s started no guest", c.Argv[0])
	}
	return p.hold(c, said.PID)
}

// hold takes a helper's child for the guest.
func (p *process) hold(c Command, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd >= 0 { // the helper's, which ends with the guest
		unix.Close(p.pidfd)
		p.pid, p.pidfd = pid, fd
		return nil
	}
	unix.Close(fd)
	return fmt.Errorf("%s has ended", c.Argv[0])
}

// reap waits for the end of the process.
func (p *process) reap() {
	for {
		_, err := unix.Wait4(p.child, &p.status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if p.helper { // which may have been ended before the guest
		p.kill()
		_ = deadline.Ended(context.Background(), p.pidfd)
	}
	p.mu.Lock()
	unix.Close(p.pidfd)
	p.pidfd = -1
	p.mu.Unlock()
	text := make([]byte, maxSaid)
	n, _ := p.stderr.ReadAt(text, 0)
	p.stderr.Close()
	p.said = strings.Trim(string(text[:n]), "\x00\n ")
	if p.ended != nil {
		p.left = p.ended()
	}
	close(p.done)
}

// kill ends the process and everything in its namespaces.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd >= 0 {
		unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) // fails only when it is gone
	}
}

// err says, after done, how the process ended; nil is an orderly end.
func (p *process) err() error {
	said := p.said
	if said != "" {
		said = ": " + said
	}
	switch {
	case p.status.Signaled():
		return fmt.Errorf("the guest was ended by signal %d%s", p.status.Signal(), said)
	case p.status.ExitStatus() != 0:
		return fmt.Errorf("the guest ended with status %d%s", p.status.ExitStatus(), said)
	default:
		return nil
	}
}

// maxSaid is how much is kept of what a guest says on standard error, in bytes.
const maxSaid = 4 << 10

// newStderr makes the file for what the guest says on standard error, which is only ever
// something when it crashes. It can't grow: what is beyond it is lost.
func newStderr() (*os.File, error) {
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "stderr")
	if err := f.Truncate(maxSaid); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, os.NewSyscallError("F_ADD_SEALS", err)
	}
	return f, nil
}
