// Package jail runs one program of the host (git, jj) over data that an agent wrote, in a sandbox
// that lives as long as the program: no network, nothing visible but the system's folders and the
// paths that are named, nothing writable but the scratch folders that are named, no capabilities,
// bounded. An attacker in that program gets none of the user's files, secrets or processes. It is
// not for the agent itself: that is internal/runtime.
//
// The program starts itself once more, under the name in [Name], in new namespaces; that process
// builds the walls around itself and then becomes the program. It does so in this package's init: a
// start takes half the time when nothing else has been initialised, and a test program needs no
// code for it.
package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/mount"
	"forage/internal/term"
)

// Command is a program and all that it gets.
type Command struct {
	Args     []string // Args[0] is a name, looked up in the system's folders, or an absolute path
	Env      []string // added to PATH, HOME and LC_ALL, which is all there is otherwise
	Dir      string   // "" is the root folder
	ReadOnly []string // what is visible, at its own place: absolute, and no part of one is a link
	Writable []string // scratch folders, likewise
	Limits   Limits

	Stdin  io.Reader `json:"-"` // nil is /dev/null; an *os.File is handed on as it is
	Stdout io.Writer `json:"-"` // nil is /dev/null
	Stderr io.Writer `json:"-"` // gets standard error, at most maxWarnings of it
}

// Limits bound a command; of each, 0 is the default.
type Limits struct {
	Memory   uint64        // bytes of address space of each process, 2 GiB or more; files that it maps count
	CPU      time.Duration // of each process, in whole seconds
	FileSize uint64        // bytes of each file that it writes
	Tasks    uint64        // processes and threads
	Time     time.Duration // until it is killed
	Output   int64         // bytes on standard output
}

var defaults = Limits{Memory: 4 << 30, CPU: time.Minute, FileSize: 1 << 30, Tasks: 512, Time: deadline.Answer, Output: 1 << 30}

// ErrOutput says that a program was killed since it wrote more than Limits.Output.
var ErrOutput = errors.New("its output is larger than allowed")

// maxStderr is how much of standard error is kept for an error, in bytes.
const maxStderr = 2 << 10

// maxWarnings bounds Command.Stderr, in bytes.
const maxWarnings = 1 << 20

// Run runs the command and waits for its end. The error has the end of standard error, escaped; an
// `interface{ ExitCode() int }` is in its chain when the program ended by itself. With ctx,
// Limits.Time and this process, all that the command started ends.
func (c Command) Run(ctx context.Context) error {
	if len(c.Args) == 0 {
		return errors.New("running a program in a jail: no name")
	}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("running %s in a jail: %w", filepath.Base(c.Args[0]), err)
	}
	return nil
}

func (c Command) run(ctx context.Context) error {
	limits := c.Limits.orDefault()
	ctx, cancel := deadline.Within(ctx, limits.Time, "it")
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)

	p, files, err := c.plan(limits)
	defer closeAll(files)
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	started, status, err := os.Pipe()
	if err != nil {
		return err
	}
	defer started.Close()
	defer status.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{Name, string(text)}
	cmd.Env = []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0", "GOMAXPROCS=1", "GOGC=off"}
	cmd.ExtraFiles = append([]*os.File{status}, files...)
	cmd.SysProcAttr = p.attributes()
	cmd.WaitDelay = deadline.End // for a Stdin or a Stdout that does not return
	cmd.Stdin = c.Stdin
	if c.Stdout != nil {
		cmd.Stdout = &bounded{w: c.Stdout, left: limits.Output, over: func() { giveUp(ErrOutput) }}
	}
	stderr := &tail{}
	cmd.Stderr = stderr
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(stderr, &bounded{w: c.Stderr, left: maxWarnings, over: func() { giveUp(ErrOutput) }})
	}

	runtime.LockOSThread() // with the thread that started it the program ends: prctl(2), PR_SET_PDEATHSIG
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return forage.Errorf(forage.ErrUnsupported, "making its namespaces: %w", err)
	}
	status.Close()
	said, _ := io.ReadAll(io.LimitReader(started, maxStderr)) // ends when the program has begun
	err = cmd.Wait()
	switch {
	case len(said) > 0:
		return forage.Errorf(forage.ErrUnsupported, "building it: %s", said)
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err != nil && stderr.String() != "":
		return fmt.Errorf("%s (%w)", stderr, err)
	}
	return err
}

// plan is what the process in the new namespaces is told.
type plan struct {
	Command
	Program string
	ID      mount.Owner // who it is, inside and outside
	Root    bool        // this process is root: ReadOnly and Writable are mounts from the descriptor firstMount on
}

// nobody is who the program is when root calls: a user who owns nothing.
const nobody = 0x6ffffffe

// plan finds the program; for root it makes the mounts, on which the caller's files belong to
// nobody.
func (c Command) plan(limits Limits) (_ plan, files []*os.File, err error) {
	p := plan{Command: c, ID: mount.Owner{UID: os.Geteuid(), GID: os.Getegid()}}
	p.Limits = limits
	if p.Program, err = hostexec.Find(c.Args[0]); err != nil {
		return p, nil, err
	}
	if p.Program, err = filepath.EvalSymlinks(p.Program); err != nil {
		return p, nil, err
	}
	if p.ID.UID != 0 {
		return p, nil, nil
	}
	owner := p.ID
	p.ID, p.Root = mount.Owner{UID: nobody, GID: nobody}, true
	for i, path := range p.paths() {
		f, err := mapped(path, i < len(c.ReadOnly), owner, p.ID)
		if err != nil {
			return p, files, fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, f)
	}
	return p, files, nil
}

func mapped(path string, readOnly bool, owner, inside mount.Owner) (*os.File, error) {
	fd, err := mount.Open(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return mount.Mapped(fd, attributesOf(readOnly), owner, inside)
}

// paths are ReadOnly, then Writable.
func (p plan) paths() []string {
	return append(p.ReadOnly[:len(p.ReadOnly):len(p.ReadOnly)], p.Writable...)
}

func (p plan) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: p.ID.UID, HostID: p.ID.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: p.ID.GID, HostID: p.ID.GID, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
	}
	if p.Root {
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: uint32(p.ID.UID), Gid: uint32(p.ID.GID)}
	}
	return attr
}

func (l Limits) orDefault() Limits {
	for _, n := range []struct{ value, otherwise *uint64 }{{&l.Memory, &defaults.Memory}, {&l.FileSize, &defaults.FileSize}, {&l.Tasks, &defaults.Tasks}} {
		if *n.value == 0 {
			*n.value = *n.otherwise
		}
	}
	for _, d := range []struct{ value, otherwise *time.Duration }{{&l.CPU, &defaults.CPU}, {&l.Time, &defaults.Time}} {
		if *d.value == 0 {
			*d.value = *d.otherwise
		}
	}
	if l.Output == 0 {
		l.Output = defaults.Output
	}
	return l
}

// Argv is a command line that runs the command with the standard streams that it is given, and
// passes its exit status on. It is for programs that start one. Arguments that are added to it are
// ignored.
func (c Command) Argv() ([]string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	return []string{program, argument, string(text)}, err
}

// Shell is Argv as a line for a shell, as `git fetch --upload-pack` wants it.
func (c Command) Shell() (string, error) {
	argv, err := c.Argv()
	return "exec " + term.ShellWords(argv), err
}

// bounded passes on what it is allowed to.
type bounded struct {
	w    io.Writer
	left int64
	over func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		b.over()
		return 0, ErrOutput
	}
	return b.w.Write(p)
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxStderr):]
	return len(p), nil
}

func (t *tail) String() string { return term.Escape(strings.TrimSpace(string(t.text))) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
