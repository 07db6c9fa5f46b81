package child

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"forage/internal/mount"
)

// maskedProc are files of /proc that tell about the whole machine or act on it.
// Ordinary file permissions keep the agent out of most of them; the masks stand
// behind those.
var maskedProc = []string{"cmdline", "kallsyms", "kcore", "keys", "key-users", "kmsg", "sched_debug", "sysrq-trigger", "timer_list", "vmcore"}

// MaskedProc are their paths.
func MaskedProc() []string {
	var paths []string
	for _, name := range maskedProc {
		paths = append(paths, "/proc/"+name)
	}
	return paths
}

// makeProc mounts a /proc of the sandbox's own process namespace. With nested
// namespaces allowed it stays whole: the kernel lets a namespace have a /proc of its own
// only where it can see a whole one.
func (b *builder) makeProc() error {
	if err := b.plant.folder("proc"); err != nil {
		return err
	}
	proc, err := take(b.background.proc)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	if len(b.boot.Exec) > 0 { // which mounts one
		return b.limitNamespaces(proc)
	}
	if err := unix.MoveMount(proc, "", b.root, "proc", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	if err := b.limitNamespaces(proc); err != nil {
		return err
	}
	if b.boot.Nesting {
		return nil
	}
	for _, name := range maskedProc {
		if err := b.mask(inertFile, proc, name); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("masking %s: %w", name, err)
		}
	}
	sys, err := mount.CloneAt(proc, "sys", 0, mount.ReadOnly|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("sys: %w", err)
	}
	return mount.Attach(sys, proc, "sys")
}

// mask shows an empty file or folder (inertFile, voidDir) at path below dir.
func (b *builder) mask(with string, dir int, path string) error {
	fd, err := mount.CloneAt(b.tmpfs, with, 0, 0)
	if err != nil {
		return err
	}
	return mount.Attach(fd, dir, path)
}

// devices are the host's device files that are shown: name, major and minor
// number (Documentation/admin-guide/devices.txt).
var devices = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

// devLinks are links in /dev, as every system has them.
var devLinks = []struct{ name, target string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

// makeDev makes /dev: a few devices of the host, which are what they are called,
// and terminals of the sandbox's own.
func (b *builder) makeDev() error {
	folder, err := openFolder(b.tmpfs, dirDev)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	p := newPlanter(folder)
	for _, d := range devices {
		if err := p.file(d.name, nil, 0o444); err != nil {
			return err
		}
	}
	for _, l := range devLinks {
		if err := p.link(l.name, l.target); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := p.folder(name); err != nil {
			return err
		}
	}
	dev, err := mount.CloneAt(b.tmpfs, dirDev, 0, mount.ReadOnly|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	if err := b.plant.folder("dev"); err != nil {
		return err
	}
	if err := mount.Attach(dev, b.root, "dev"); err != nil {
		return err
	}
	for _, d := range devices {
		if err := b.mountDevice("dev/"+d.name, unix.Mkdev(d.major, d.minor)); err != nil {
			return fmt.Errorf("/dev/%s: %w", d.name, err)
		}
	}
	return b.mountTerminals()
}

func (b *builder) mountTerminals() error {
	// All sandboxes together share what the host has beyond its own reserve
	// (Documentation/filesystems/devpts.rst). No gid= option: the group "tty" is not mapped, and
	// the agent needs none.
	pts, err := mount.New("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
		mount.Option{"newinstance", ""}, mount.Option{"ptmxmode", "0666"}, mount.Option{"mode", "0620"}, mount.Option{"max", "128"})
	if err != nil {
		return err
	}
	return mount.Attach(pts, b.root, "dev/pts")
}

// mountDevice shows the host's device at rel, if it is the one with that number.
func (b *builder) mountDevice(rel string, number uint64) error {
	fd, err := mount.Open("/" + rel)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != number {
		return errors.New("the host's is not that device")
	}
	made, err := mount.CloneAt(fd, "", 0, mount.Device)
	if err != nil {
		return err
	}
	return mount.Attach(made, b.root, rel)
}

// sysTrees is what tools read of /sys: how many processors there are, and what they can do.
var sysTrees = []string{"sys/devices/system/cpu", "sys/devices/system/node"}

func (b *builder) makeSys() error {
	if err := b.plant.folder("sys"); err != nil {
		return err
	}
	for _, rel := range sysTrees {
		fd, err := mount.Open("/" + rel)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := b.plant.folder(rel); err != nil {
			return err
		}
		made, err := mount.CloneTree(fd, mount.ReadOnly|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return fmt.Errorf("/%s: %w", rel, err)
		}
		if err := mount.Attach(made, b.root, rel); err != nil {
			return fmt.Errorf("/%s: %w", rel, err)
		}
	}
	return nil
}
