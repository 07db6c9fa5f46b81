package fault

import "golang.org/x/sys/unix"

// Calls that newer architectures don't have, and C libraries still make here.
func init() {
	for number, c := range map[uint64]call{
		unix.SYS_OPEN: {name: "open", fd: -1, path: 0, flags: 1},

		unix.SYS_CREAT: at("creat", -1, 0), unix.SYS_MKDIR: at("mkdir", -1, 0), unix.SYS_RMDIR: at("rmdir", -1, 0), unix.SYS_UNLINK: at("unlink", -1, 0),
		unix.SYS_RENAME: at("rename", -1, 1), unix.SYS_LINK: at("link", -1, 1), unix.SYS_SYMLINK: at("symlink", -1, 1),
		unix.SYS_CHMOD: at("chmod", -1, 0), unix.SYS_CHOWN: at("chown", -1, 0), unix.SYS_LCHOWN: at("lchown", -1, 0),
	} {
		calls[number] = c
	}
}
