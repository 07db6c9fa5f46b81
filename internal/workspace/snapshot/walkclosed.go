package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

// What a mode has to permit its owner for a file, and for a folder, to be read.
const (
	readable   = 0o400
	searchable = 0o500
)

// unlocked gives what is called name, which st is of, a mode that lets its owner read it, until relock is called. ok is false where that
// isn't needed, or may not be.
func unlocked(dir int, name string, st *unix.Stat_t, needs uint32) (relock func(), ok bool) {
	if st.Mode&needs == needs || int(st.Uid) != os.Geteuid() || os.Geteuid() == 0 {
		return nil, false
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	was, open := st.Mode&0o7777, st.Mode&0o7777|needs
	if !isInode(fd, st, st.Mode) || unix.Fchmodat(unix.AT_FDCWD, procPath(fd), open, 0) != nil {
		unix.Close(fd)
		return nil, false
	}
	return func() {
		if isInode(fd, st, st.Mode&^0o7777|open) { // else somebody has given it another mode meanwhile
			unix.Fchmodat(unix.AT_FDCWD, procPath(fd), was, 0)
		}
		unix.Close(fd)
	}, true
}

// isInode says whether fd is the file that st is of, with that mode.
func isInode(fd int, st *unix.Stat_t, mode uint32) bool {
	var now unix.Stat_t
	return unix.Fstat(fd, &now) == nil && inodeOf(&now) == inodeOf(st) && now.Mode == mode
}
