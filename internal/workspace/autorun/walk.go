package autorun

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// folder is one folder of the tree while it is looked through.
type folder struct {
	*os.Root
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

// list returns what is in a folder, by name.
func list(dir *os.Root) ([]fs.DirEntry, error) {
	file, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := file.ReadDir(maxEntries + 1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// bare says whether git would take a folder with these names for a repository: git's setup.c, is_git_directory.
func bare(entries []fs.DirEntry) bool {
	has := func(name string) bool {
		_, found := slices.BinarySearchFunc(entries, name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
		return found
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

// folder looks through one folder and those below it.
func (s *scanner) folder(f folder) {
	entries, err := list(f.Root)
	if err != nil && len(entries) > 0 {
		s.unseen(f.path, "it can't be read: "+err.Error())
	}
	if bare(entries) {
		head := path.Join(f.path, "HEAD") // without which the folder is an ordinary one
		s.report(head, rule{KindRepository, "it makes the folder a bare repository, and git executes what the config in it says"}, s.metadataState(f.Root, ".", head))
	}
	for _, e := range entries {
		if s.entries.Add(1) > maxEntries {
			s.full.Do(func() {
				s.unseen(f.path, fmt.Sprintf("the workspace has more than %d files; what comes after this folder was not looked at", maxEntries))
			})
			return
		}
		if s.ctx.Err() != nil {
			return
		}
		file := path.Join(f.path, e.Name())
		if why, ok := metadata(e.Name()); ok {
			s.report(file, rule{KindRepository, why}, s.metadataState(f.Root, e.Name(), file))
			continue
		}
		switch e.Type() {
		case fs.ModeDir:
			s.descend(f, e.Name(), file)
		case 0:
			s.file(f, e, file)
		case fs.ModeSymlink:
			s.link(f, e.Name(), file)
		}
	}
}

func (s *scanner) unseen(at, why string) {
	s.report(path.Join(".", at), rule{KindUnseen, why}, "unseen")
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
	var err error
	if inner.Root, err = f.OpenRoot(name); err != nil {
		if info, gone := f.Lstat(name); gone == nil && info.IsDir() { // else it has just changed
			s.unseen(file, "it can't be opened: "+err.Error())
		}
		return
	}
	if f.bulk == nil { // else its digest is of files in order
		select {
		case s.free <- struct{}{}:
			s.others.Go(func() {
				s.within(f, inner, name)
				<-s.free
			})
			return
		default:
		}
	}
	s.within(f, inner, name)
}

// within looks through the folder inner of that name in f, and closes it.
func (s *scanner) within(f, inner folder, name string) {
	defer inner.Close()
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

const (
	whyIdentity = "it has setuid or setgid: who starts it does so as its owner or group"
	whyNamed    = "git executes it, or takes from it what to execute: its configuration or a hook names it"
)

// ruled is the rule for a file by its name, or by where it is.
func (s *scanner) ruled(f folder, name, file string) (rule, bool) {
	switch {
	case s.hooks[file]:
		return rule{KindHook, whyNamed}, true
	case f.under.kind != "":
		return f.under, true
	}
	return lookupFile(f.name(), name)
}

// file looks at a regular file.
func (s *scanner) file(f folder, e fs.DirEntry, file string) {
	name := e.Name()
	info, err := e.Info() // which the list of a Root has
	if err != nil {
		return
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Mode&modeIdentity != 0 {
		s.mu.Lock()
		s.identities = append(s.identities, file)
		s.mu.Unlock()
	}
	r, ok := s.ruled(f, name, file)
	_, known := s.before[file]
	switch {
	case st.Mode&modeIdentity != 0 && (!ok || !r.kind.Immediate()):
		r = rule{KindExecutable, whyIdentity}
	case ok:
	case st.Mode&modeExecutable == 0:
		return
	case known:
		r = rule{KindExecutable, "it is executable, and has changed"}
	default:
		r = rule{KindExecutable, whyExecutable}
	}
	if s.counts(f, r) {
		s.report(file, r, s.fileState(f.Root, name, file, st))
		return
	}
	f.bulk.text(fmt.Sprintf("%s\x00%o:%d:%d:%d.%d", file, st.Mode&modeState, st.Size, st.Ino, st.Ctim.Sec, st.Ctim.Nsec))
}

// link looks at a symbolic link.
func (s *scanner) link(f folder, name, file string) {
	target, err := f.Readlink(name)
	if err != nil {
		return
	}
	r, ok := s.ruled(f, name, file)
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

// escapes asks the file system whether the path leads out of the root through links.
func (s *scanner) escapes(file string) bool {
	_, err := s.top.Stat(file)
	return underlying(err) == s.outside
}

// behind is the state of the file in the tree that a link with a rule leads to: it is executed in the link's place.
// A folder is looked through later.
func (s *scanner) behind(file string, r rule) string {
	opened, err := s.top.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer opened.Close()
	info, err := opened.Stat()
	switch {
	case err != nil:
	case info.Mode().IsRegular() && !s.isNew(file):
		d := newDigest()
		d.text(content(s.top, file))
		return " " + d.sum()
	case info.IsDir() && r.kind != KindLink:
		at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", opened.Fd()))
		rel, inside := strings.CutPrefix(at, s.at+"/")
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := (linked{rel, r}); err == nil && inside && len(s.linked) < maxLinked && !slices.Contains(s.linked, l) {
			s.linked = append(s.linked, l)
		}
	}
	return ""
}
