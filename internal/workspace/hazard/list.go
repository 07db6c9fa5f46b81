package hazard

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is one name in a folder.
type entry struct {
	name string
	kind byte // DT_DIR, ...
}

// listFolder returns what is in the folder that fd is open on, by name.
func listFolder(fd int) ([]entry, error) {
	var list []entry
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 || len(list) > maxEntries {
			slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
			return list, err
		}
		for rest := buf[:n]; len(rest) > 0; {
			size := int(binary.NativeEndian.Uint16(rest[16:])) // struct linux_dirent64, getdents(2)
			name, _, _ := bytes.Cut(rest[19:size], []byte{0})
			e := entry{string(name), rest[18]}
			rest = rest[size:]
			if e.name == "." || e.name == ".." {
				continue
			}
			if e.kind == unix.DT_UNKNOWN {
				e.kind = kindOf(fd, e.name)
			}
			list = append(list, e)
		}
	}
}

// kindOf asks for the kind of a file on file systems that don't list it.
func kindOf(dir int, name string) byte {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode & unix.S_IFMT >> 12)
}

// bare says whether git would take a folder with these names for a repository: git's setup.c, is_git_directory.
func bare(list []entry) bool {
	has := func(name string) bool {
		_, found := slices.BinarySearchFunc(list, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
		return found
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
