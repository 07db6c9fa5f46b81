package hostile

import "golang.org/x/sys/unix"

// OpenBelow opens what is at path below the folder dir; a link anywhere in path is ELOOP.
func OpenBelow(dir int, path string, flags uint64) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}
