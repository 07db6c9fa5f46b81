// Package mount wraps the kernel's calls for mounts that are made by descriptor (open_tree(2),
// fsopen(2), mount_setattr(2)), ID-mapped ones among them. What is mounted where is decided above.
package mount

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Attributes of mounts: mount_setattr(2). Every mount of a sandbox has at
// least Inert; they are set before a mount becomes visible, and once it
// is, nothing inside may take one away.
const (
	Inert    = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	ReadOnly = Inert | unix.MOUNT_ATTR_RDONLY
	Device   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY
)

// resolveHost is how sources on the host are opened: a link anywhere in the
// path is an error, so one that is swapped in after planning leads nowhere.
const resolveHost = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Open opens a file or folder of the host to be mounted.
func Open(path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveHost})
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", path, err)
	}
	return fd, nil
}

// CloneTree returns a detached copy of the mount at fd and of all below it,
// with attributes added to each.
func CloneTree(fd int, attrs uint64) (int, error) {
	return CloneAt(fd, "", unix.AT_RECURSIVE, attrs)
}

// CloneAt is CloneTree for path below dir; flags is 0 or unix.AT_RECURSIVE. The last part of path
// is not followed.
func CloneAt(dir int, path string, flags uint, attrs uint64) (int, error) {
	fd, err := unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|flags)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if attrs != 0 {
		if err := SetAttrs(fd, flags, unix.MountAttr{Attr_set: attrs}); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// SetAttrs changes a mount; flags is 0 or unix.AT_RECURSIVE.
func SetAttrs(fd int, flags uint, attr unix.MountAttr) error {
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// Attach makes a detached mount visible at path below dir, or at dir itself
// when path is "", and closes it.
func Attach(mount, dir int, path string) error {
	defer unix.Close(mount)
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	if err := unix.MoveMount(mount, "", dir, path, flags); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// Option is one parameter of a file system, a key and a value: fsconfig(2). Without a value it is a
// flag.
type Option [2]string

// New makes a file system of that kind and returns it as a detached mount.
func New(kind string, attrs int, options ...Option) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen %s: %w", kind, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fs, o[0])
		} else {
			err = unix.FsconfigSetString(fs, o[0], o[1])
		}
		if err != nil {
			return -1, fmt.Errorf("fsconfig %s %s=%s: %w%s", kind, o[0], o[1], err, kernelSays(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("fsconfig %s: %w%s", kind, err, kernelSays(fs))
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return -1, fmt.Errorf("fsmount %s: %w%s", kind, err, kernelSays(fs))
	}
	return fd, nil
}

// kernelSays returns what the kernel logged on a file system's configuration
// descriptor, as the tail of an error message: fsopen(2), "Message retrieval".
func kernelSays(fs int) string {
	var b [512]byte
	n, err := unix.Read(fs, b[:])
	if err != nil || n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (kernel: %s)", b[:n])
}
