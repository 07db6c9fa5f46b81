package native

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"forage/internal/pipe"
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

// process is a guest as its parent holds it.
type process struct {
	pid    int
	mu     sync.Mutex // over pidfd
	pidfd  int        // -1 once it has been reaped
	stderr *tail
	done   chan struct{} // closed when it has been reaped, and what it said is in stderr
	status unix.WaitStatus
}

// spawn clones program into fresh namespaces, with control as descriptor 3. It returns
// once the program has been executed, in the control group of which cgroup is
// the folder, if any. The OS thread that cloned it lives exactly as
// long: the kernel kills the guest when that thread ends, so it must not be one that Go may end.
func spawn(program string, control *os.File, ids idMaps, cgroup *os.File) (*process, error) {
	// Whatever this process inherited without close-on-exec stays outside.
	if err := unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("closing inherited descriptors: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	stderr, errWrite, err := newTail()
	if err != nil {
		return nil, err
	}
	defer errWrite.Close()
	p := &process{pidfd: -1, done: make(chan struct{}), stderr: stderr}
	started := make(chan error)
	go func() {
		goruntime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := p.start(program, []uintptr{null.Fd(), null.Fd(), errWrite.Fd(), control.Fd()}, ids, cgroup)
		started <- err
		if err == nil {
			p.reap()
		}
	}()
	if err := <-started; err != nil {
		close(stderr.ended)
		return nil, err
	}
	return p, nil
}

func (p *process) start(program string, files []uintptr, ids idMaps, cgroup *os.File) error {
	attr := &syscall.SysProcAttr{
		Cloneflags:  namespaces,
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
		AmbientCaps: setupCaps,
		PidFD:       &p.pidfd,
	}
	ids.apply(attr)
	if cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(cgroup.Fd())
	}
	pid, _, err := syscall.StartProcess(program, []string{"forage-guest", Argument}, &syscall.ProcAttr{Env: guestEnv, Files: files, Sys: attr})
	if err != nil {
		return err
	}
	p.pid = pid
	return nil
}

// reap waits for the end of the process.
func (p *process) reap() {
	for {
		_, err := unix.Wait4(p.pid, &p.status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	unix.Close(p.pidfd)
	p.pidfd = -1
	p.mu.Unlock()
	close(p.stderr.ended)
	<-p.stderr.done
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
	said := p.stderr.String()
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

// tail keeps the last of what the guest says on standard error, which is only
// ever something when it crashes. It is untrusted text.
type tail struct {
	mu    sync.Mutex
	text  []byte
	ended chan struct{} // closed when nobody is left to say anything
	done  chan struct{} // closed when all is in text
}

const tailSize = 2 << 10

// newTail makes a tail and the file that fills it.
func newTail() (*tail, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	t := &tail{ended: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer read.Close()
		pipe.Copy(t, read, t.ended)
	}()
	return t, write, nil
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
