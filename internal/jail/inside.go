package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"forage/internal/hostexec"
	"forage/internal/landlock"
	"forage/internal/mount"
	"forage/internal/rootfs"
	"forage/internal/seccomp"
)

// Name is what the process in the new namespaces calls itself.
const Name = "forage-jail"

// argument is the first argument of a command line that Argv made.
const argument = "forage-jailed"

// Descriptors that the process gets.
const (
	statusFD   = 3 // says what went wrong; closed without a word when the program begins
	firstMount = 4
)

func init() {
	switch {
	case len(os.Args) == 2 && os.Args[0] == Name:
		failed := make(chan error)
		go func() { // Landlock doesn't take the first thread
			runtime.LockOSThread()
			failed <- become(os.Args[1])
		}()
		fmt.Fprint(os.NewFile(statusFD, "status"), <-failed)
		os.Exit(1)
	case len(os.Args) >= 3 && os.Args[1] == argument:
		os.Exit(front(os.Args[2]))
	}
}

// front runs a command line that Argv made.
func front(text string) int {
	var c Command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, "forage-ctl:", err)
		return 64
	}
	c.Stdin, c.Stdout = os.Stdin, os.Stdout
	// The host's process may end without a word.
	err := errors.Join(unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0), c.Run(context.Background()))
	var exit interface{ ExitCode() int }
	if err != nil {
		fmt.Fprintln(os.Stderr, "forage-ctl:", err)
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	return 1
}

// become builds the walls and executes the program; it returns only when that fails.
func become(text string) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := p.build(); err != nil {
		return err
	}
	if err := unix.Chdir(path.Join("/", p.Dir)); err != nil {
		return fmt.Errorf("entering %s: %w", p.Dir, err)
	}
	if err := p.bound(); err != nil {
		return err
	}
	if err := confine(); err != nil {
		return err
	}
	env := append([]string{"PATH=" + hostexec.Path(), "HOME=/nonexistent", "LC_ALL=C.UTF-8"}, p.Env...)
	return fmt.Errorf("executing %s: %w", p.Program, unix.Exec(p.Program, p.Args, env))
}

// build makes the root, which has no more than it must, and lets go of the host's.
func (p plan) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	root, err := mount.New("tmpfs", mount.Inert, mount.Option{"size", "1m"}, mount.Option{"nr_inodes", "4096"},
		mount.Option{"mode", "0755"})
	if err != nil {
		return err
	}
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	view, err := rootfs.System(os.DirFS("/"))
	if err != nil {
		return err
	}
	for _, m := range view.Mounts {
		if err := show(root, m.Source, mount.ReadOnly); err != nil {
			return err
		}
	}
	for _, l := range view.Links {
		if err := makeFolders(root, path.Dir(l.Path)); err != nil {
			return err
		}
		if err := unix.Symlinkat(l.Target, root, l.Path[1:]); err != nil {
			return fmt.Errorf("making the link %s: %w", l.Path, err)
		}
	}
	for _, device := range []string{"/dev/null", "/dev/urandom"} {
		if err := show(root, device, mount.Device); err != nil {
			return err
		}
	}
	for i, at := range p.paths() {
		if p.Root {
			err = attach(root, firstMount+i, at)
		} else {
			err = show(root, at, attributesOf(i < len(p.ReadOnly)))
		}
		if err != nil {
			return err
		}
	}
	if err := mount.SetAttrs(root, 0, unix.MountAttr{Attr_set: mount.ReadOnly}); err != nil {
		return err
	}
	// pivot_root(2), "pivot_root(".", ".")": the old root then lies on top of the new one.
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the old root: %w", err)
	}
	return nil
}

func attributesOf(readOnly bool) uint64 {
	if readOnly {
		return mount.ReadOnly
	}
	return mount.Inert
}

// show mounts what the host has at that path in the same place.
func show(root int, at string, attrs uint64) error {
	fd, err := mount.Open(at)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	made, err := mount.CloneTree(fd, attrs)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return attach(root, made, at)
}

// attach makes a detached mount visible, in a new place unless an earlier mount has one.
func attach(root, made int, at string) error {
	var st unix.Stat_t
	err := unix.Fstat(made, &st)
	if err == nil {
		err = makeFolders(root, path.Dir(at))
	}
	rel := at[1:]
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = makeFolders(root, at)
	} else if err == nil {
		if err = unix.Mknodat(root, rel, unix.S_IFREG|0o444, 0); errors.Is(err, unix.EEXIST) {
			err = nil
		}
	}
	if err == nil {
		err = mount.Attach(made, root, rel)
	}
	if err != nil {
		return fmt.Errorf("showing %s: %w", at, err)
	}
	return nil
}

func makeFolders(root int, at string) error {
	if at == "/" {
		return nil
	}
	if err := makeFolders(root, path.Dir(at)); err != nil {
		return err
	}
	if err := unix.Mkdirat(root, at[1:], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("making the folder %s: %w", at, err)
	}
	return nil
}

// bound sets the limits of getrlimit(2).
func (p plan) bound() error {
	seconds := uint64((p.Limits.CPU + time.Second - 1) / time.Second)
	for _, l := range []struct {
		which int
		most  uint64
	}{
		{unix.RLIMIT_AS, p.Limits.Memory}, {unix.RLIMIT_CPU, seconds}, {unix.RLIMIT_FSIZE, p.Limits.FileSize}, {unix.RLIMIT_NPROC, p.Limits.Tasks},
		{unix.RLIMIT_CORE, 1}, // 0 would not keep a handler on the host from being started: core(5)
		{unix.RLIMIT_NOFILE, 1024}, {unix.RLIMIT_MEMLOCK, 64 << 10}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_SIGPENDING, 256},
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.which, &now); err != nil {
			return fmt.Errorf("getrlimit: %w", err)
		}
		most := min(l.most, now.Max)
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("setrlimit: %w", err)
		}
	}
	return nil
}

// confine gives up what the calling thread has and the program must not: the thread is the one that
// executes it.
func confine() error {
	if err := unix.CloseRange(statusFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing descriptors: %w", err)
	}
	filter, err := seccomp.Filter(seccomp.Options{NoSockets: true})
	if err != nil {
		return err
	}
	for c := uintptr(0); ; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && c > unix.CAP_LAST_CAP {
			break // one more than the kernel knows
		} else if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	if _, err := landlock.Confine(landlock.Options{}); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_PDEATHSIG: %w", err)
	}
	return seccomp.Install(filter)
}
