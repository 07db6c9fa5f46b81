package snapshot

import (
	"crypto/rand"
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"forage"
)

// temporaryPrefix begins the names of files that are about to take their place. They are beside it, for
// there is no other place from which that is one step; one that a killed restore left is not in the
// snapshot, and goes with the next.
const temporaryPrefix = ".forage-restore-"

// replace puts what make makes in the place of what is called name.
func (o *outlet) replace(dir int, name, at string, make func(temporary string) error) error {
	temporary := temporaryPrefix + rand.Text()
	err := make(temporary)
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, name)
	}
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if err = o.makeWay(dir, name, at); err == nil {
			err = unix.Renameat(dir, temporary, dir, name)
		}
	}
	// rename(2) does nothing where both are names of one file already.
	return errors.Join(err, absent(unix.Unlinkat(dir, temporary, 0)))
}

// clear takes away what is in dir and not wanted.
func (o *outlet) clear(dir *os.File, at string, wanted []*entry) {
	names, err := dir.Readdirnames(-1)
	o.fail(at, err)
	keep := make(map[string]bool, len(wanted))
	for _, e := range wanted {
		keep[path.Base(e.Path)] = true
	}
	for _, name := range names {
		if !keep[name] && o.ctx.Err() == nil {
			_, err := o.remove(int(dir.Fd()), name, path.Join(at, name))
			o.fail(path.Join(at, name), err)
		}
	}
}

// makeWay removes what is where something of the snapshot belongs.
func (o *outlet) makeWay(dir int, name, at string) error {
	stays, err := o.remove(dir, name, at)
	if err == nil && stays {
		err = errInTheWay()
	}
	return err
}

func errInTheWay() error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "something is in the way that is ignored, can't be read, or was made meanwhile"),
		"move it aside, and restore again")
}

// inTheWay is an error if something is called name that would be lost when it is written over.
func (o *outlet) inTheWay(dir int, name, at string) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || special(st.Mode) {
		return nil
	}
	if now := o.present[at]; now == nil || now.Kind == kindLeft {
		return errInTheWay()
	}
	return nil
}

// remove takes away what is called name, with what is below it: no more than the present snapshot has.
func (o *outlet) remove(dir int, name, at string) (stays bool, err error) {
	now := o.present[at]
	if now == nil {
		return true, nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, absent(err)
	}
	switch {
	case now.Kind == kindLeft && (now.Target == "" || !special(st.Mode)):
		return true, nil
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return false, absent(unix.Unlinkat(dir, name, 0))
	}
	child, err := openFolder(dir, name)
	if errors.Is(err, unix.EACCES) {
		return true, nil
	}
	if err != nil {
		return false, absent(err)
	}
	defer child.Close()
	if stays, err := o.empty(child, at); stays || err != nil {
		return stays, err
	}
	err = absent(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return true, nil
	}
	return false, err
}

// empty removes what is in dir.
func (o *outlet) empty(dir *os.File, at string) (stays bool, err error) {
	if err := open(int(dir.Fd())); err != nil {
		return false, err
	}
	names, err := dir.Readdirnames(-1)
	errs := []error{err}
	for _, name := range names {
		left, err := o.remove(int(dir.Fd()), name, path.Join(at, name))
		stays = stays || left
		errs = append(errs, err)
	}
	return stays, errors.Join(errs...)
}

// special files have no content to lose.
func special(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFSOCK, unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK:
		return true
	default:
		return false
	}
}

func absent(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
