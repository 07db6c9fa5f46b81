package snapshot

import (
	"crypto/rand"
	"errors"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
)

// temporaryPrefix begins the names of files that are about to take their place. They are beside it, for
// there is no other place from which that is one step; one that a killed restore left is not in the
// snapshot, and goes with the next.
const temporaryPrefix = ".forage-restore-"

func temporaryName() string { return temporaryPrefix + rand.Text() }

// file makes the file called name what e says.
func (o *outlet) file(c *copier, dir int, name string, e *entry) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	now := o.present.find(e.path)
	switch {
	case err == nil && o.isLinked(e, &st):
		return nil
	case err == nil && now.is(&st) && now.digest == e.digest && now.size == e.size && sameXattrs(now.xattrs, e.xattrs):
		single := st.Nlink == 1 && o.leaders[e.path] == nil && e.target == ""
		if st.Mode&0o7777 == e.mode && (stamp{st.Mtim.Sec, st.Mtim.Nsec}) == e.mtime && (single || now.seen == e.seen) {
			o.leaders[e.path].is(inodeOf(&st))
			return nil
		}
		if single && retouch(dir, name, &st, e) { // what else is linked to it is none of ours
			return nil
		}
	}
	if err == nil && !special(st.Mode) && (now == nil || now.kind == kindLeft) {
		return errInTheWay()
	}
	if done, err := o.linkTo(dir, name, e); done || err != nil {
		return err
	}
	temporary := temporaryName()
	if err := o.make(c, dir, temporary, e); err != nil {
		if removing := unix.Unlinkat(dir, temporary, 0); !errors.Is(removing, unix.ENOENT) {
			err = errors.Join(err, removing)
		}
		return err
	}
	return o.replace(dir, temporary, name, e.path)
}

// is says whether st is of the file e, not touched since.
func (e *entry) is(st *unix.Stat_t) bool {
	return e != nil && e.kind == kindFile && st.Mode&unix.S_IFMT == unix.S_IFREG && e.seen == identityOf(st) && e.size == st.Size
}

// retouch changes the mode and time of a file; false where it must be made anew.
func retouch(dir int, name string, was *unix.Stat_t, e *entry) bool {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Dev != was.Dev || st.Ino != was.Ino || st.Nlink != 1 {
		return false
	}
	return unix.Fchmod(fd, e.mode) == nil && e.mtime.set(fd) == nil
}

// make makes a new file of e.
func (o *outlet) make(c *copier, dir int, name string, e *entry) error {
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if err := o.bring(o.ctx, c, file, e.digest, e.size); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	o.leaders[e.path].is(inodeOf(&st))
	own(fd, &st, e)
	o.fail(e.path, writeXattrs(fd, e.xattrs, nil)) // the content is worth having without
	if err := unix.Fchmod(fd, e.mode); err != nil {
		return err
	}
	return e.mtime.set(fd)
}

// replace puts what was made in its place.
func (o *outlet) replace(dir int, temporary, name, at string) error {
	err := unix.Renameat(dir, temporary, dir, name)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if err = o.makeWay(dir, name, at); err == nil {
			err = unix.Renameat(dir, temporary, dir, name)
		}
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(dir, temporary, 0))
	}
	return nil
}

// clear takes away what is in dir and not wanted.
func (o *outlet) clear(dir *os.File, at string, wanted []*entry) {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		o.fail(at, err)
		return
	}
	keep := make(map[string]bool, len(wanted))
	for _, e := range wanted {
		keep[path.Base(e.path)] = true
	}
	for _, name := range names {
		if keep[name] || o.ctx.Err() != nil {
			continue
		}
		_, err := o.remove(int(dir.Fd()), name, path.Join(at, name))
		o.fail(path.Join(at, name), err)
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
	if now := o.present.find(at); now == nil || now.kind == kindLeft {
		return errInTheWay()
	}
	return nil
}

// remove takes away what is called name, with what is below it: no more than the present snapshot has.
func (o *outlet) remove(dir int, name, at string) (stays bool, err error) {
	now := o.present.find(at)
	if now == nil {
		return true, nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, absent(err)
	}
	switch {
	case now.kind == kindLeft && (now.target == "" || !special(st.Mode)):
		return true, nil
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return false, absent(unix.Unlinkat(dir, name, 0))
	}
	child, err := openFolder(dir, name)
	if errors.Is(err, unix.EACCES) {
		if err := unlock(dir, name); err != nil {
			return false, err
		}
		child, err = openFolder(dir, name)
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
	if err := o.open(dir); err != nil {
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

func sameXattrs(a, b []xattr) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}
