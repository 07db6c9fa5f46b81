package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/control"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/mount"
	"forage/internal/runtime"
)

// A Container's sandbox is built in two steps. The stage, a process of ours in namespaces of its
// own, builds the root filesystem as the guest of another runtime does, but does not go there: it
// writes a bundle beside it and becomes the Container's program. That makes a container of it, in
// namespaces within the stage's, and starts the guest, which sets up the network and gives up all
// that it has. Mounts, processes and state of that program exist only in the stage's namespaces, and
// vanish with it.

// stageFD is the descriptor at which the stage finds its channel. The guest's is controlFD.
const stageFD = 4

// ContainerCaps are what the guest starts with, and gives up before anything of the agent's runs. On
// the host's kernel it has CAP_SYS_ADMIN too, which holds for the sandbox's user namespace alone, for
// what boot.Seal asks for; on another CAP_NET_RAW, for legacy iptables.
var ContainerCaps = []string{"CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"}

// GuestEnv is the guest's environment.
func GuestEnv() []string { return slices.Clone(guestEnv) }

// maker is a Container's program.
func (r *Runtime) maker() string {
	argv, err := r.config.Container.Command()
	if err != nil {
		return ""
	}
	return argv[0]
}

// Stage builds what Start asks for, and becomes the program that makes a container of it. It
// returns only a failure, which the host knows of or has to read from the process's standard error.
func Stage() error {
	goruntime.LockOSThread()
	file := os.NewFile(stageFD, "stage")
	unix.CloseOnExec(stageFD)
	channel, err := control.New(file, control.FromHost())
	if err != nil {
		return err
	}
	defer channel.Close()
	argv, err := stage(channel)
	if err != nil {
		return errors.Join(err, reportFailure(channel, err))
	}
	if err := channel.Send(control.Frame{Kind: control.Answer}); err != nil {
		return err
	}
	env := append(GuestEnv(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return syscall.Exec(argv[0], argv, env)
}

// stage builds, and returns the command line of what the process is to become.
func stage(channel *control.Conn) ([]string, error) {
	b, err := receiveBoot(link{control: channel})
	if err != nil {
		return nil, err
	}
	defer b.close()
	b.background = &background{proc: make(chan part[int], 1)}
	b.background.proc <- partOf(mount.New("proc", mount.Inert|unix.MOUNT_ATTR_NOEXEC))
	if len(b.boot.Exec) == 0 {
		return nil, errors.New("there is nothing to be started")
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	if b.boot.OwnKernel { // which takes from the user's quotas for the agent
		if err := errors.Join(b.limitProcess(), shareQuotas()); err != nil {
			return nil, err
		}
	}
	return b.boot.Exec, do(step{"laying out the bundle", b.layOut}, step{"becoming user 0 of the container", becomeZero})
}

// layOut puts what was built where the container's program finds it, and has the mounts around it
// be what such programs expect.
func (b *builder) layOut() error {
	p := newPlanter(b.tmpfs)
	if err := errors.Join(p.folder(dirState), p.file(dirBundle+"/config.json", []byte(b.boot.Bundle), 0o444)); err != nil {
		return err
	}
	if err := unix.MoveMount(b.tmpfs, "", unix.AT_FDCWD, StagePath, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	proc, err := mount.New("proc", mount.Inert|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	if err := mount.Attach(proc, unix.AT_FDCWD, "/proc"); err != nil {
		return err
	}
	// crun refuses a host that has both versions of control groups.
	const unified = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(unified); err != nil {
		return nil
	}
	empty, err := mount.New("tmpfs", mount.Inert)
	if err != nil {
		return err
	}
	return mount.Attach(empty, unix.AT_FDCWD, unified)
}

// becomeZero makes the calling process user 0 of its user namespace, with all of its capabilities.
func becomeZero() error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := errors.Join(syscall.Setresgid(0, 0, 0), syscall.Setresuid(0, 0, 0)); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) // cleared by that
}

// become makes the guest, which a container was started with as user 0, the agent, with no way
// back.
func (b *builder) become() error {
	who := b.boot.Identity
	unix.Umask(0)
	if b.boot.Seal {
		if err := sealRoot(len(b.boot.Lower) == 0); err != nil {
			return fmt.Errorf("sealing the root: %w", err)
		}
	}
	if err := dropBoundingSet(everyThread); err != nil {
		return err
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := errors.Join(syscall.Setresgid(who.GID, who.GID, who.GID), syscall.Setresuid(who.UID, who.UID, who.UID)); err != nil {
		return err
	}
	return dropCapabilities()
}

// sealRoot restores the attributes of mounts that a program took away by mounting them once more, as
// crun does.
func sealRoot(readOnly bool) error {
	set := func(path string, flags uint, attrs uint64) error {
		return unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: attrs})
	}
	root := uint64(mount.Inert)
	if readOnly {
		root = mount.ReadOnly
	}
	return errors.Join(set("/", unix.AT_RECURSIVE, unix.MOUNT_ATTR_NOSUID), set("/", 0, root), set("/proc", unix.AT_RECURSIVE, mount.Inert|unix.MOUNT_ATTR_NOEXEC))
}

// newStage makes the channel to a stage, where there is to be one.
func (r *Runtime) newStage() (*control.Conn, *os.File, error) {
	if r.config.Container == nil {
		return nil, nil, nil
	}
	host, inner, err := control.Pair()
	if err != nil {
		return nil, nil, err
	}
	c, err := control.New(host, control.FromGuest())
	if err != nil {
		inner.Close()
	}
	return c, inner, err
}

// order has the stage of w, where there is one, build what b says.
func (r *Runtime) order(ctx context.Context, w waiting, spec forage.Spec, b boot, files []*os.File) (err error) {
	if w.stage == nil {
		return nil
	}
	defer w.stage.Close()
	b.Seal = false // that is for the guest
	w.stage.SetDeadline(time.Now().Add(deadline.Progress))
	stop := context.AfterFunc(ctx, func() { w.stage.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	argument := ContainerArgument
	if r.config.Stream {
		argument = ContainerStreamArgument
	}
	b.Nesting = b.OwnKernel // it makes namespaces for itself
	if b.Exec, err = r.config.Container.Command(); err != nil {
		return err
	}
	bundle, err := r.config.Container.Bundle(spec, argument)
	if err != nil {
		return err
	}
	b.Bundle = string(bundle)
	if err := w.stage.Send(control.Frame{Kind: control.Boot, Blob: b.encode()}, files...); err != nil {
		return err
	}
	frame, _, err := w.stage.Receive()
	if err == nil && frame.Kind == control.Failed {
		return failed(frame)
	}
	return err
}

// zeroID is whom root has be user and group 0 of a container: nobody.
const zeroID = 0x6ffffffe

// findZero finds ids for user and group 0 of a container.
func (m *idMaps) findZero() error {
	if os.Geteuid() == 0 {
		m.zeroUID, m.zeroGID = zeroID, zeroID
		return nil
	}
	m.zeroUID, m.zeroGID = subordinate("/etc/subuid"), subordinate("/etc/subgid")
	missing := m.zeroUID == 0 || m.zeroGID == 0
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		_, err := hostexec.Find(tool)
		missing = missing || err != nil
	}
	if !missing {
		return nil
	}
	return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "you have no subordinate ids, which an OCI container needs one of"),
		"as root: install newuidmap (package uidmap or shadow-utils); usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER")
}

// mapZero has newuidmap and newgidmap write maps that have user and group 0.
func (m idMaps) mapZero(ctx context.Context, pid int) error {
	var maps errgroup.Group
	maps.Go(func() error { return runMap(ctx, "newuidmap", pid, m.who.UID, m.who.HostUID, m.zeroUID) })
	maps.Go(func() error { return runMap(ctx, "newgidmap", pid, m.who.GID, m.who.HostGID, m.zeroGID) })
	return maps.Wait()
}

func runMap(ctx context.Context, tool string, pid, inside, outside, zero int) error {
	argv := []string{tool, strconv.Itoa(pid)}
	for _, n := range []int{inside, outside, 1, 0, zero, 1} {
		argv = append(argv, strconv.Itoa(n))
	}
	if _, err := hostexec.Run(ctx, hostexec.Command{Argv: argv}); err != nil {
		return fmt.Errorf("mapping ids: %w", err)
	}
	return nil
}

// checkContainer is Check, whose trial stops where the stage would become the Container's program.
func (r *Runtime) checkContainer(ctx context.Context) []runtime.Finding {
	finding := func(name string, err error) runtime.Finding {
		f := runtime.Finding{Name: name, Required: true, OK: err == nil}
		if err != nil {
			f.Detail, f.Fix = err.Error(), forage.Hint(err)
		}
		return f
	}
	argv, err := r.config.Container.Command()
	program := finding("OCI command line", err)
	if err == nil {
		program.Detail = argv[0]
	}
	findings := []runtime.Finding{program, finding("user 0 of a container", new(idMaps).findZero())}
	builder := Runtime{config: r.config}
	builder.config.Container, builder.config.Stream, builder.config.Namespaces = nil, false, Clone{}
	return append(findings, builder.Check(ctx)...)
}
