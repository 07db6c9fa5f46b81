package hazard

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is one folder of the tree while it is looked through.
type folder struct {
	fd    int
	path  string // relative to the root; "" is the root
	depth int
	under rule    // what counts for all that is in it; no kind: nothing
	bulk  *digest // not nil: in one of dependencies, of which one finding is made
}

func (f folder) name() string {
	if f.path == "" {
		return ""
	}
	return path.Base(f.path)
}

// folder looks through one folder and those below it.
func (s *scanner) folder(f folder) {
	list, err := listFolder(f.fd)
	if err != nil {
		s.unseen(f.path, "it can't be read: "+err.Error())
	}
	if bare(list) {
		head := path.Join(f.path, "HEAD") // without which the folder is an ordinary one
		s.report(head, rule{KindRepository, "it makes the folder a bare repository, and git executes what the config in it says"}, s.metadataState(f.fd, ".", head))
	}
	for _, e := range list {
		if s.entries.Add(1) > maxEntries {
			if s.first(&s.full) {
				s.unseen(f.path, fmt.Sprintf("the workspace has more than %d files; what comes after this folder was not looked at", maxEntries))
			}
			return
		}
		if s.ctx.Err() != nil {
			return
		}
		s.entry(f, e)
	}
}

// first sets what was not set yet.
func (s *scanner) first(set *bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := *set
	*set = true
	return !was
}

func (s *scanner) unseen(at, why string) {
	if at == "" {
		at = "."
	}
	s.report(at, rule{KindUnseen, why}, "unseen")
}

// entry looks at one entry of a folder.
func (s *scanner) entry(f folder, e entry) {
	file := e.name
	if f.path != "" {
		file = f.path + "/" + e.name
	}
	if why, ok := metadata(e.name); ok {
		s.report(file, rule{KindRepository, why}, s.metadataState(f.fd, e.name, file))
		return
	}
	switch e.kind {
	case unix.DT_DIR:
		s.descend(f, e.name, file)
	case unix.DT_REG:
		s.file(f, e.name, file)
	case unix.DT_LNK:
		s.link(f, e.name, file)
	}
}

// descend looks through a folder in f.
func (s *scanner) descend(f folder, name, file string) {
	inner := folder{path: file, depth: f.depth + 1, under: f.under, bulk: f.bulk}
	if inner.depth > maxDepth || len(file) > 3500 {
		s.unseen(file, fmt.Sprintf("it lies deeper than %d folders", maxDepth))
		return
	}
	if r, ok := lookup(f.name(), name, true); ok && s.counts(f, r) {
		inner.under = r
	}
	if s.hooks[file] {
		inner.under = rule{KindHook, whyNamed}
	}
	fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // it has just changed
		return
	default:
		s.unseen(file, "it can't be opened: "+err.Error())
		return
	}
	inner.fd = fd
	if f.bulk != nil { // whose digest is of files in order
		s.within(f, inner, name)
		return
	}
	select {
	case s.free <- struct{}{}:
	default:
		s.within(f, inner, name)
		return
	}
	s.others.Go(func() {
		s.within(f, inner, name)
		<-s.free
	})
}

// within looks through the folder inner of that name in f, and closes it.
func (s *scanner) within(f, inner folder, name string) {
	defer unix.Close(inner.fd)
	if f.bulk != nil || !dependencies[strings.ToLower(name)] || inner.under.kind != "" {
		s.folder(inner)
		return
	}
	inner.bulk = newDigest()
	s.folder(inner)
	if inner.bulk.used {
		s.report(inner.path, rule{KindBuild, whyDependencies}, inner.bulk.sum())
	}
}

// counts says whether what has that rule is a finding of its own in f.
func (s *scanner) counts(f folder, r rule) bool {
	return f.bulk == nil || r.kind == KindRepository || r.kind == KindShell || r.why == whyNamed || r.why == whyIdentity
}

const whyIdentity = "it has setuid or setgid: who starts it does so as its owner or group"

const whyNamed = "git executes it, or takes from it what to execute: its configuration names it"

// ruled is the rule for a file that holds by where it is, if there is one.
func (s *scanner) ruled(f folder, file string) (rule, bool) {
	if s.hooks[file] {
		return rule{KindHook, whyNamed}, true
	}
	return f.under, f.under.kind != ""
}

// file looks at a regular file.
func (s *scanner) file(f folder, name, file string) {
	r, ok := s.ruled(f, file)
	if !ok {
		r, ok = lookupFile(f.name(), name)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	_, known := s.before[file]
	switch identity := st.Mode&modeIdentity != 0; {
	case identity && (!ok || !r.kind.Immediate()):
		r = rule{KindExecutable, whyIdentity}
	case ok:
	case st.Mode&modeExecutable == 0:
		return
	case known:
		r = rule{KindExecutable, "it is executable, and has changed"}
	default:
		r = rule{KindExecutable, whyExecutable}
	}
	if !s.counts(f, r) {
		f.bulk.add(file, st)
		return
	}
	s.report(file, r, s.fileState(f.fd, name, file, st))
}

// link looks at a symbolic link.
func (s *scanner) link(f folder, name, file string) {
	target, err := readLink(f.fd, name)
	if err != nil {
		return
	}
	r, ok := s.ruled(f, file)
	if !ok {
		r, ok = lookupFile(f.name(), name)
	}
	if !ok && (leaves(file, target) || s.escapes(file)) {
		r, ok = rule{KindLink, whyLink(target)}, true
	}
	switch {
	case !ok:
	case s.counts(f, r):
		s.report(file, r, "link "+target+s.behind(file, r))
	default:
		f.bulk.text(file + "\x00" + target)
	}
}

// behind is the state of the file in the tree that a link with a rule leads to: it is executed in the link's place.
// A folder is looked through later.
func (s *scanner) behind(file string, r rule) string {
	fd, err := s.follow(file)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s.root))
	if err != nil {
		return ""
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	rel, inside := strings.CutPrefix(at, top+"/")
	var st unix.Stat_t
	if err != nil || !inside || unix.Fstat(fd, &st) != nil {
		return ""
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if s.isNew(file) {
			return ""
		}
		d := newDigest()
		d.text(readBelow(s.root, rel))
		return " " + d.sum()
	case unix.S_IFDIR:
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := (linked{rel, r}); r.kind != KindLink && len(s.linked) < maxLinked && !slices.Contains(s.linked, l) {
			s.linked = append(s.linked, l)
		}
	}
	return ""
}

// escapes asks the file system whether the path leads out of the root through links.
func (s *scanner) escapes(file string) bool {
	fd, err := s.follow(file)
	if err == nil {
		unix.Close(fd)
		return false
	}
	return err == unix.EXDEV || err == unix.EAGAIN
}

// raceTries is how often openat2(2) is asked again: on a busy machine a few times are enough, and who renames things all the
// time to be in its way holds it up no longer.
const raceTries = 1000

// follow opens what a path stands for, through links that stay within the root. EAGAIN: that could not be found out. It is what
// openat2(2) says when anything is renamed or mounted, anywhere on the machine, while it goes up by "..".
func (s *scanner) follow(file string) (fd int, err error) {
	for range raceTries {
		fd, err = unix.Openat2(s.root, file, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH})
		if err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return fd, err
}
