package rootfs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
)

// Tool is what the caller has outside the system's folders, as it is shown
// inside: at its own path, read-only, with the tree it belongs to and
// nothing around it.
type Tool struct {
	Mounts []forage.Mount
	Links  []forage.Link
	Dirs   []string          // folders to look for commands in, first ones first
	Env    map[string]string // what it needs
}

// Caller is whose tools are looked for.
type Caller struct {
	Path string // folders joined by ':', as in PATH
	Home string
	// Hostile are folders that sandboxes write to (the workspace): nothing in them is
	// a tool, since a link there could make anything of the caller's visible.
	Hostile []string
	// Getenv is the caller's environment; nil is an empty one.
	Getenv func(string) (string, bool)
	// May says why the folder at path, which is real without links, may not be shown; nil allows
	// all.
	May func(path, real string) error
	// Written says whether some sandbox can write to a folder; nil says no.
	Written func(real string) bool
	// Project is the workspace's folder, whose files name versions of tools; Inside is the home
	// inside.
	Project, Inside string
}

// env is a variable of the caller's; "" is none.
func (c Caller) env(name string) string {
	if c.Getenv == nil {
		return ""
	}
	value, _ := c.Getenv(name)
	return value
}

// inHome is the path of something in the caller's home; "" if there is no home.
func (c Caller) inHome(rel string) string {
	if c.Home == "" {
		return ""
	}
	return filepath.Join(c.Home, rel)
}

// hostile says whether the way to path leads nowhere, or through a folder that sandboxes write to.
// Links on the way count.
func (c Caller) hostile(path string) bool {
	for at, err := range Way(path) {
		within := func(dir string) bool { return Within(at, dir) }
		if err != nil && !errors.Is(err, unix.EINVAL) || slices.ContainsFunc(c.Hostile, within) {
			return true
		}
	}
	return false
}

// Found is something of the caller's that could be shown.
type Found struct {
	Name  string // which cache, or "" for an entry of PATH
	Path  string // on the host
	Shown string // where it is inside; "" is nowhere
	Why   string // it is not shown
}

// toolDepth bounds how many interpreters and launchers lead to one another.
const toolDepth = 8

// Tools finds what the caller can run. Of PATH it takes the folders that are known to hold tools
// and nothing else; it finds commands anywhere on PATH. Found says of each folder what became of
// it.
func Tools(commands []string, caller Caller) (Tool, []Found, error) {
	s := newSearch(caller)
	found := s.entries()
	for _, command := range commands {
		if err := s.command(command, 0); err != nil {
			return Tool{}, nil, fmt.Errorf("making %s visible: %w", command, err)
		}
	}
	return s.done(), found, nil
}

type toolSearch struct {
	caller   Caller
	path     []string
	own      []string // ownFolders
	managers []manager
	bases    []string // where managers install, without links
	tool     Tool
	at       int // the entry of path that is looked at
	dirs     []placedDir
	// everywhere: nothing of the host's system is visible.
	everywhere bool
}

// placedDir is a folder to look for commands in, and for which entry of the caller's PATH it
// stands.
type placedDir struct {
	dir string
	at  int
}

func newSearch(caller Caller) *toolSearch {
	return &toolSearch{caller: caller, path: filepath.SplitList(caller.Path), own: ownFolders(caller), managers: managers()}
}

// done is what was found. The folders of programs are in the order of the caller's PATH. The
// system's folders are among them only as far as others come after them: every sandbox has those.
func (s *toolSearch) done() Tool {
	slices.SortStableFunc(s.dirs, func(a, b placedDir) int { return cmp.Compare(a.at, b.at) })
	system, last := filepath.SplitList(systemPath), 0
	for _, d := range s.dirs {
		if slices.Contains(s.tool.Dirs, d.dir) {
			continue
		}
		s.tool.Dirs = append(s.tool.Dirs, d.dir)
		if !slices.Contains(system, d.dir) {
			last = len(s.tool.Dirs)
		}
	}
	s.tool.Dirs = s.tool.Dirs[:last:last]
	if last == 0 {
		s.tool.Dirs = nil
	}
	return s.tool
}

// command adds what running name takes: a name to be looked up, or an absolute path.
func (s *toolSearch) command(name string, depth int) error {
	if depth > toolDepth {
		return fmt.Errorf("more than %d programs start one another", toolDepth)
	}
	path := s.locate(name)
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(name) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return err
		}
		s.dirs = append(s.dirs, placedDir{dir, s.at})

	}
	// Adds the program at path: the links that lead to it, its tree, and whatever interprets it or
	// is started by it.
	real, err := s.follow(path)
	if err != nil {
		return err
	}
	if s.caller.hostile(path) {
		return errors.New("it leads into a folder that sandboxes write to")
	}
	if !inSystem(real) {
		for _, tree := range treesOf(real, s.caller.Home) {
			s.show(tree)
		}
		if err := s.companions(real); err != nil {
			return err
		}
	}
	started, err := startedBy(real)
	if err != nil {
		return err
	}
	for _, program := range started {
		if err := s.command(program, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// locate is lookup that finds what a version manager's shim stands for: shims look for a version
// that is not visible inside.
func (s *toolSearch) locate(name string) string {
	path := s.lookup(name)
	if m, ok := s.shimsOf(filepath.Dir(path)); ok {
		for _, bin := range m.resolve(s, m) {
			if target := filepath.Join(bin, filepath.Base(path)); executable(target) {
				return target
			}
		}
	}
	return path
}

// lookup is where the caller's shell would find name; "" is nowhere.
func (s *toolSearch) lookup(name string) string {
	if filepath.IsAbs(name) {
		if executable(name) {
			return filepath.Clean(name)
		}
		return ""
	}
	if name == "" || strings.ContainsRune(name, '/') {
		return "" // relative to the workspace, which is visible
	}
	for i, dir := range s.path {
		s.at = i
		if filepath.IsAbs(dir) && executable(filepath.Join(dir, name)) && !s.caller.hostile(dir) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// companions adds npm and npx to a Node that a version manager has installed:
// agents start their tools with them, and nothing else there finds this Node.
func (s *toolSearch) companions(node string) error {
	prefix := filepath.Dir(filepath.Dir(node))
	npm := filepath.Join(prefix, "lib/node_modules/npm")
	if info, err := os.Stat(npm); filepath.Base(node) != "node" || err != nil || !info.IsDir() {
		return nil
	}
	s.show(npm)
	for _, name := range []string{"npm", "npx"} {
		path := filepath.Join(filepath.Dir(node), name)
		if !executable(path) {
			continue
		}
		if _, err := s.follow(path); err != nil {
			return err
		}
	}
	return nil
}

// follow adds the links that lead from path to a file, and returns the file.
// Their folders are resolved, so that no folder has to be a link inside.
func (s *toolSearch) follow(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // the file itself
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if dir, err = filepath.EvalSymlinks(filepath.Dir(target)); err != nil {
			return "", err
		}
		target = filepath.Join(dir, filepath.Base(target))
		link := forage.Link{Path: path, Target: target}
		if (s.everywhere || !inSystem(path)) && !s.shown(path) && !slices.Contains(s.tool.Links, link) {
			s.tool.Links = append(s.tool.Links, link)
		}
		path = target
	}
	return "", errors.New("too many links")
}

// shown says whether a tree that is shown holds path.
func (s *toolSearch) shown(path string) bool {
	return slices.ContainsFunc(s.tool.Mounts, func(m forage.Mount) bool { return Within(path, m.Target) })
}

// show adds a tree, unless it is visible with another.
func (s *toolSearch) show(tree string) {
	if inSystem(tree) || s.shown(tree) {
		return
	}
	s.tool.Mounts = slices.DeleteFunc(s.tool.Mounts, func(m forage.Mount) bool { return m.System && Within(m.Target, tree) })
	s.tool.Mounts = append(s.tool.Mounts, forage.Mount{Source: tree, Target: tree, System: true})
	s.tool.Links = slices.DeleteFunc(s.tool.Links, func(l forage.Link) bool { return Within(l.Path, tree) })
}

// inSystem says whether the host view shows path anyhow.
func inSystem(path string) bool {
	trees := []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix/store", "/gnu/store", "/run/current-system"}
	return slices.ContainsFunc(trees, func(tree string) bool { return Within(path, tree) })
}
