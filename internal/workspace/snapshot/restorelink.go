package snapshot

import (
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// leader is the first name of a file that has several in a folder: the others become links to it.
type leader struct {
	begun atomic.Bool
	made  chan struct{} // closed when there is nothing to wait for any more
	inode inode         // of what is there then; zero: nothing is
}

// inode is a file, whatever it is called.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), st.Ino} }

// leaders are those of c, by path.
func leaders(c *contents) map[string]*leader {
	all := make(map[string]*leader)
	for _, e := range c.entries {
		if e.kind == kindFile && e.target != "" && all[e.target] == nil {
			all[e.target] = &leader{made: make(chan struct{})}
		}
	}
	return all
}

// begin says that l is being made, so that it can be waited for. What is no leader is nil.
func (l *leader) begin() {
	if l != nil {
		l.begun.Store(true)
	}
}

// is says which file l is.
func (l *leader) is(i inode) {
	if l != nil {
		l.inode = i
	}
}

func (l *leader) end() {
	if l != nil {
		close(l.made)
	}
}

// wait is the file that l has become; zero: none. One that is not being made yet is not waited for.
func (l *leader) wait() inode {
	if l == nil || !l.begun.Load() {
		return inode{}
	}
	<-l.made
	return l.inode
}

// isLinked says whether the file that st is of is another name of what e's leader is.
func (o *outlet) isLinked(e *entry, st *unix.Stat_t) bool {
	first := o.leaders[e.target].wait()
	return first != inode{} && first == inodeOf(st)
}

// linkTo makes the file called name another name of e's leader, which this restore has made or found. done is false where
// that can't be: then it becomes a file of its own, with the same content.
func (o *outlet) linkTo(dir int, name string, e *entry) (done bool, err error) {
	first := o.leaders[e.target].wait()
	if first == (inode{}) {
		return false, nil
	}
	fd, err := o.reach(e.target)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || inodeOf(&st) != first { // something else has taken its place
		return false, nil
	}
	temporary := temporaryName()
	if unix.Linkat(unix.AT_FDCWD, procPath(fd), dir, temporary, unix.AT_SYMLINK_FOLLOW) != nil {
		return false, nil
	}
	if err := o.replace(dir, temporary, name, e.path); err != nil {
		return false, err
	}
	// rename(2) does nothing where both are names of one file already.
	return true, absent(unix.Unlinkat(dir, temporary, 0))
}

// reach opens what is at a path in the folder, through no link, without reading it.
func (o *outlet) reach(at string) (fd int, err error) {
	fd, err = unix.Openat(int(o.root.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(at, "/") {
		if err != nil || at == "" {
			return fd, err
		}
		var next int
		next, err = unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		fd = next
	}
	return fd, err
}
