package rootfs

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of the way to a file: as many links as the kernel follows, path_resolution(7), and more
// folders than anyone has.
const (
	maxLinks = 40
	maxSteps = 4096
)

// Way goes to an absolute path as the kernel does. It gives each place on the way, without links
// before it, and why there is no link: unix.EINVAL is something else, unix.ELOOP a way that is too
// long. nil is a link, which it follows.
func Way(path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		at, links, steps := "/", 0, 0
		for todo := path; todo != ""; {
			name, rest, _ := strings.Cut(todo, "/")
			if todo = rest; name == "" || name == "." {
				continue
			}
			at = filepath.Join(at, name) // ".." too: there is no link in at
			target, err := os.Readlink(at)
			if err == nil {
				links++
			}
			if steps++; links > maxLinks || steps > maxSteps {
				err = unix.ELOOP
			}
			if !yield(at, err) || errors.Is(err, unix.ELOOP) {
				return
			}
			if err != nil {
				continue
			}
			todo = target + "/" + todo
			if at = filepath.Dir(at); filepath.IsAbs(target) {
				at = "/"
			}
		}
	}
}
