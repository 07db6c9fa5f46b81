package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
)

// CheckOwner refuses with forage.ErrRefused, when root calls, paths in which somebody else has a
// say: root would leave files there that its owner can't change, and a link that the owner puts in
// its place would have root write wherever it leads. What root alone can change on the way to one
// stays what it is when this has looked at it. Everybody else is held by the kernel.
func CheckOwner(paths ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range paths {
		if err := checkOwner(path, 0); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner is CheckOwner for a caller. What belongs to root is nobody's to change, whoever calls.
func checkOwner(path string, caller uint32) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("finding out who owns %s: %w", path, err)
	}
	if err := checkWay(filepath.Clean(path), caller); err != nil || real == filepath.Clean(path) {
		return err
	}
	return checkWay(real, caller)
}

// checkWay looks at each step of path, from the root of the file system on: who can't change one
// can't replace the next.
func checkWay(path string, caller uint32) error {
	if err := checkStep(path, path, caller); err != nil {
		return err // which says more than what is said of the way there
	}
	step := "/"
	for name := range strings.SplitSeq(path[1:], "/") {
		if err := checkStep(step, path, caller); err != nil {
			return err
		}
		step = filepath.Join(step, name)
	}
	return checkStep(path, path, caller) // once more, now that nobody can have replaced it
}

func checkStep(step, path string, caller uint32) error {
	var st unix.Stat_t
	if err := unix.Lstat(step, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: step, Err: err}
	}
	open := st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0
	foreign := st.Uid != caller && st.Uid != 0
	if !open && !foreign {
		return nil
	}
	if !foreign {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "everybody can write to %s, and root would follow what they put there", step), "chmod o-w "+step)
	}
	name, account := ownerName(st.Uid)
	hint := "run it as the owner: sudo -u " + account + " forage-ctl ..."
	if step != path {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s belongs to %s, who can put something else in the place of %s", step, name, path),
			hint+"; what is root's belongs in a folder of root's")
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%s belongs to %s: root does not work in what is another user's", path, name),
		hint+"; or make it root's: chown -R root "+path)
}

// ownerName is how a user is called in a message, and for sudo(8).
func ownerName(uid uint32) (name, account string) {
	id := strconv.Itoa(int(uid))
	if known, err := user.LookupId(id); err == nil {
		return known.Username, known.Username
	}
	return "user " + id, "'#" + id + "'"
}
