package mount

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"forage"
)

// Owner is a user and a group of the host's.
type Owner struct{ UID, GID int }

// Mapped is CloneTree for root, who hands the mount to a process of another user: what belongs to
// disk on disk belongs to the process, whose ids are inside; what the process makes belongs to disk
// on disk: mount_setattr(2), "ID-mapped mounts".
func Mapped(fd int, attrs uint64, disk, inside Owner) (*os.File, error) {
	made, err := CloneTree(fd, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(made), "mount")
	attr := unix.MountAttr{Attr_set: attrs, Propagation: unix.MS_PRIVATE}
	if disk != inside {
		userns, err := mapping(swap(disk.UID, inside.UID), swap(disk.GID, inside.GID))
		if err != nil {
			f.Close()
			return nil, err
		}
		defer userns.Close()
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(userns.Fd())
	}
	err = SetAttrs(made, unix.AT_RECURSIVE, attr)
	runtime.KeepAlive(f)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EINVAL) && disk != inside {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "its file system can't map owners (idmapped mounts), which root needs"),
			"start it as the user who owns the files, or keep them on ext4, xfs, btrfs or tmpfs")
	}
	return nil, err
}

// maxID is one more than the largest id: (uid_t)-1 is none.
const maxID = 1<<32 - 1

// extent is a line of a map of ids.
type extent struct{ inside, outside, size int }

// swap maps every id to itself, but a and b to each other. All ids are mapped, so that files
// of others than the owner keep their permissions: to write to a file
// whose owner is not mapped is refused whatever its mode.
func swap(a, b int) []extent {
	low, high := min(a, b), max(a, b)
	var extents []extent
	add := func(from, to, size int) {
		if size > 0 {
			extents = append(extents, extent{from, to, size})
		}
	}
	add(0, 0, low)
	add(low, high, 1)
	if low != high {
		add(low+1, low+1, high-low-1)
		add(high, low, 1)
	}
	add(high+1, high+1, maxID-high-1)
	return extents
}

// mapping returns a user namespace with those maps. A namespace is made by a
// process: this one stops before its first instruction and is then ended. It is
// in a session of its own: a signal to our process group (a terminal's
// interrupt) that came to it while it is traced and before it has executed would stop
// it there, and this thread with it, for good.
func mapping(uids, gids []extent) (*os.File, error) {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{"forage-idmap"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Setsid: true, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace for the owner's map: %w", err)
	}
	defer func() {
		unix.Kill(pid, unix.SIGKILL)
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	// Not by SysProcAttr: it opens these files without close-on-exec, and a guest that is
	// cloned in that moment would have them.
	for file, extents := range map[string][]extent{"uid_map": uids, "gid_map": gids} {
		if err := os.WriteFile(proc+file, []byte(mapText(extents)), 0); err != nil {
			return nil, fmt.Errorf("writing the owner's map: %w", err)
		}
	}
	return os.Open(proc + "ns/user")
}

// mapText is a map as user_namespaces(7) wants it.
func mapText(extents []extent) string {
	var b strings.Builder
	for _, e := range extents {
		fmt.Fprintf(&b, "%d %d %d\n", e.inside, e.outside, e.size)
	}
	return b.String()
}
