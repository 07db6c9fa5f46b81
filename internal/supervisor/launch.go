package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/idle"
	"forage/internal/limits"
	"forage/internal/notify"
	"forage/internal/runtime/engine"
	"forage/internal/sshkeys"
	"forage/internal/store"
	"forage/internal/workspace"
)

// Argument is the first argument of a detached supervisor's command line.
const Argument = "supervisor"

// lockFD is where a detached supervisor finds its lock.
const lockFD = 3

// Spawn starts a detached supervisor, in a session of its own, and returns
// when the sandbox is usable. When ctx ends first, the start is taken back.
// What the supervisor prints (only a crash prints) goes to the file at errPath.
//
// The supervisor is born with the sandbox's lock, so that it is never there without being found:
// also when this process is killed before the supervisor has done anything.
func Spawn(ctx context.Context, launch Launch, errPath string) error {
	message, err := json.Marshal(launch)
	if err != nil {
		return err
	}
	inRead, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	defer in.Close()
	out, outWrite, err := os.Pipe()
	if err != nil {
		inRead.Close()
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	defer out.Close()
	process, err := spawn(launch.paths().Dir, inRead, outWrite, errPath)
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	defer process.Release()
	told := make(chan struct{})
	defer close(told)
	// Whatever ends this process or ctx closes `in`: the supervisor, if not yet done, gives up.
	stop := context.AfterFunc(ctx, func() {
		in.Close()
		select {
		case <-told:
		case <-time.After(deadline.Answer):
			process.Kill()
		}
	})
	defer stop()
	if _, err := in.Write(message); err != nil { // it has ended, or ctx has: either way it has no more to read
		in.Close()
	}
	var report struct{ Failure *Failure }
	err = json.NewDecoder(io.LimitReader(out, maxMessage)).Decode(&report)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return forage.WithHint(forage.Errorf(forage.ErrStart, "the supervisor died while starting"), "see "+errPath)
	}
	return report.Failure.err()
}

func (l Launch) paths() Paths {
	return Places{store.Places{State: l.StateDir, Runtime: l.RuntimeDir}}.Of(l.Name)
}

// spawn starts this program again as the supervisor that holds the run-time folder dir. It closes
// stdin and stdout.
func spawn(dir string, stdin, stdout *os.File, errPath string) (*os.Process, error) {
	defer stdin.Close()
	defer stdout.Close()
	lock, err := Acquire(dir)
	if err != nil {
		return nil, err
	}
	// What it keeps of the caller's environment finds the user's D-Bus, and no agent's key is in it.
	var env []string
	for _, name := range append([]string{"PATH"}, engine.Variables...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	var process *os.Process
	stderr, err := os.OpenFile(errPath, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		defer stderr.Close()
		process, err = os.StartProcess("/proc/self/exe", []string{"forage-ctl", Argument}, &os.ProcAttr{
			Dir:   "/",
			Env:   env,
			Files: []*os.File{stdin, stdout, stderr, lockFD: lock.file},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	}
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return process, lock.close() // which leaves the lock to the supervisor: both have it open
}

// Main is a detached supervisor's whole life: it reads a Launch from in,
// brings the sandbox to life, says on out how that went, and stays until the
// sandbox has ended.
func Main(in io.Reader, out io.WriteCloser) int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	unix.CloseOnExec(lockFD)
	lock, err := inherited(lockFD)
	if err != nil {
		return 1
	}
	var launch Launch
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&launch); err != nil { // the launcher is gone and can't be told
		_ = lock.Release()
		return 1
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() { // until it has been told, the launcher's end of `in` stands for its wish
		io.Copy(io.Discard, in)
		cancel(errors.New("the command that started it gave up"))
	}()

	h, err := hold(ctx, launch, lock)
	json.NewEncoder(out).Encode(struct{ Failure *Failure }{failure(err)})
	out.Close()
	if err != nil {
		return forage.ExitCode(err)
	}
	idle.Settle()
	return h.wait()
}

// held is a sandbox with the lock and the record that a detached supervisor keeps for it.
type held struct {
	sandbox *Sandbox
	lock    *Lock
	update  func(func(*store.Record)) error
}

// hold takes over the lock of the sandbox's run-time folder and starts it from its record.
func hold(ctx context.Context, launch Launch, lock *Lock) (_ *held, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Release())
		}
	}()
	paths := launch.paths()
	if lock.lost() || !Alive(paths.Dir) {
		return nil, forage.Errorf(forage.ErrStart, "the lock of %s was not handed over", paths.Dir)
	}
	records, err := store.Open(launch.StateDir)
	if err != nil {
		return nil, err
	}
	record, err := records.Load(launch.Name)
	if err != nil {
		return nil, err
	}
	// Where there is no systemd, or it will not, the session of its own is what
	// keeps the supervisor; doctor says what ends it.
	_, _ = limits.OwnScope(limits.Host(), launch.Name, os.Getpid())
	rt, err := Runtimes{Dir: launch.RuntimeDir, Prefix: launch.Prefix}.New(record.Runtime)
	if err != nil {
		return nil, err
	}
	hostKey, err := sshkeys.LoadHost(paths.HostKey)
	if err != nil {
		return nil, err
	}
	client, err := sshkeys.Client(launch.StateDir)
	if err != nil {
		return nil, err
	}
	update := func(change func(*store.Record)) error {
		change(&record)
		return records.Save(record)
	}
	sandbox, err := Start(ctx, Setup{
		Plan: record.Plan, Runtime: rt, Dir: paths.Dir, Network: record.Network,
		LogPath: paths.Log, AuditPath: paths.Audit, ImageCache: paths.ImageCache,
		Listen: launch.Listen, Port: record.Port,
		HostKey: hostKey, ClientKey: sshkeys.Line(client.PublicKey()),
		HostEnv: launch.HostEnv, SecretEnv: launch.SecretEnv, UsagePath: paths.Usage, Update: update,
		Notify:     launch.Notify,
		Via:        launch.Via,
		Workspaces: Workspaces{Places: workspace.PlacesIn(launch.StateDir, launch.RuntimeDir)},
	})
	if err != nil {
		return nil, err
	}
	return &held{sandbox, lock, update}, nil
}

// wait stays until the sandbox has ended and writes down how.
func (h *held) wait() int {
	h.untilOver()
	reason, err := h.sandbox.Ended()
	var saveErr error
	if !h.lock.lost() { // else the record is another process's to write
		saveErr = h.update(func(record *store.Record) {
			record.Phase, record.Reason = forage.PhaseStopped, reason
			if err != nil {
				record.Phase = forage.PhaseFailed
			}
		})
	}
	releaseErr := h.lock.Release()
	if err != nil {
		setup := h.sandbox.setup
		_ = notify.Send(context.Background(), setup.Notify, notify.Event{Sandbox: setup.Plan.Name, State: notify.Failed}, os.Getenv) // its log is closed
	}
	if errors.Join(err, saveErr, releaseErr) != nil {
		return 1
	}
	return 0
}

// lockLook is how often a supervisor makes sure that it can be found, where the kernel does not
// tell it.
const lockLook = time.Minute

// What F_NOTIFY tells of: linux/fcntl.h.
const (
	dnDelete    = 0x8
	dnRename    = 0x10
	dnMultishot = 0x80000000
)

// watchRemovals has SIGIO sent when something in a folder is removed or renamed, until the file is
// closed: fcntl(2), F_NOTIFY. It takes no inotify instance: those are few.
func watchRemovals(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(folder.Fd(), unix.F_NOTIFY, dnDelete|dnRename|dnMultishot); err != nil {
		folder.Close()
		return nil, os.NewSyscallError("F_NOTIFY", err)
	}
	return folder, nil
}

// end ends the sandbox, and waits for it.
func (h *held) end(reason string) {
	if h.sandbox.stopFor(reason, deadline.End) == nil {
		<-h.sandbox.Done()
	}
}

// untilOver waits for the end of the sandbox, or ends it: when it is told to, and when its run-time
// folder was removed, since no command could any more.
func (h *held) untilOver() {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGIO)
	var look <-chan time.Time
	if folder, err := watchRemovals(h.lock.dir); err == nil {
		defer folder.Close()
	} else {
		look = time.Tick(lockLook)
	}
	for {
		if h.lock.lost() {
			h.end("its run-time folder was removed")
			return
		}
		select {
		case <-terminated:
			h.end("its supervisor was told to end")
			return
		case <-changed:
		case <-look:
		case <-h.sandbox.Done():
			return
		}
	}
}
