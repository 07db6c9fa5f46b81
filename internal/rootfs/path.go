package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// maxBinLinks bounds how many links of one folder of programs are followed.
const maxBinLinks = 256

// errUnknown is why most folders of a home are left out.
var errUnknown = errors.New("it is no kind of tool folder that Forage knows")

// ToolVariables are those that the caller's tools can bring along: Tool.Env.
func ToolVariables() []string { return []string{"JAVA_HOME", "RUSTUP_HOME", "UV_PYTHON_INSTALL_DIR"} }

// entries adds what of the caller's PATH can be run inside, and says what that is.
func (s *toolSearch) entries() []Found {
	var all []Found
	for at, dir := range s.path {
		if slices.Contains(s.path[:at], dir) {
			continue
		}
		s.at = at
		found := Found{Path: dir}
		if shown, err := s.entry(dir); err != nil {
			found.Why = err.Error()
		} else {
			found.Shown = shown
		}
		all = append(all, found)
	}
	s.at = len(s.path)
	s.javaHome()
	return all
}

// entry adds one folder of PATH and returns the folders that stand for it inside.
func (s *toolSearch) entry(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errors.New("it is relative to the current folder")
	}
	dir = filepath.Clean(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", errors.New("it is not there")
	}
	if s.caller.hostile(dir) {
		return "", errors.New("it is in the workspace, which the agent can change")
	}
	if inSystem(real) {
		s.dirs = append(s.dirs, placedDir{real, s.at})
		return real, nil
	}
	if err := s.caller.may(dir, real); err != nil {
		return "", err
	}
	// Adds a folder outside the system's, which is one of those that tools are known to be in.
	if m, ok := s.shimsOf(dir); ok {
		dirs := m.resolve(s, m)
		if len(dirs) == 0 {
			return "", errors.New("its shims stand for a version, and none is chosen and installed")
		}
		for _, bin := range dirs {
			s.dirs = append(s.dirs, placedDir{bin, s.at})
		}
		return strings.Join(dirs, ", "), nil
	}
	own := slices.Contains(s.own, dir) || slices.Contains(s.own, real)
	trees := s.installed(real)
	if trees == nil {
		trees = brewTrees(real)
	}
	switch {
	case own:
		trees = append(trees, real)
	case trees == nil:
		trees = prefixTrees(real)
		if trees != nil && s.caller.Written != nil && s.caller.Written(real) {
			return "", errors.New("it is in the workspace of another sandbox")
		}
	}
	trees = slices.DeleteFunc(trees, func(tree string) bool { return !s.mayBeTree(tree) })
	if !slices.ContainsFunc(trees, func(tree string) bool { return Within(real, tree) }) {
		return "", errUnknown
	}
	for _, tree := range trees {
		s.showOptional(tree)
	}
	if own {
		s.beside(dir, real)
	}
	s.base(real)
	s.dirs = append(s.dirs, placedDir{real, s.at})
	return real, nil
}

// mayBeTree says whether a folder is narrow enough to be shown as a tool's.
func (s *toolSearch) mayBeTree(tree string) bool {
	home := s.caller.Home
	return !tooWide(tree) && !private(tree) && (home == "" || !Within(home, tree)) && !s.caller.hostile(tree) && s.caller.may(tree, tree) == nil
}

func (c Caller) may(path, real string) error {
	if c.May == nil {
		return nil
	}
	return c.May(path, real)
}

// showOptional shows a folder that a sandbox can do without: when it starts again it may be gone.
func (s *toolSearch) showOptional(tree string) {
	if inSystem(tree) || s.shown(tree) {
		return
	}
	s.show(tree)
	s.tool.Mounts[len(s.tool.Mounts)-1].Optional = true
}

// ownFolders are folders of programs that belong to the caller; any manager may have put them
// there.
func ownFolders(c Caller) []string {
	list := []string{c.inHome(".local/bin"), c.inHome("bin"), c.inHome("go/bin"), c.env("GOBIN"), filepath.Join(c.folder("CARGO_HOME", ".cargo"), "bin"),
		filepath.Join(c.folder("BUN_INSTALL", ".bun"), "bin"), filepath.Join(c.folder("DENO_INSTALL", ".deno"), "bin"), c.folder("PNPM_HOME", ".local/share/pnpm"), c.inHome(".opencode/bin")}
	for _, path := range filepath.SplitList(c.env("GOPATH")) {
		list = append(list, filepath.Join(path, "bin"))
	}
	return list
}

// folder is what a variable names, or the usual place in the home.
func (c Caller) folder(variable, usual string) string {
	if dir := c.env(variable); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return c.inHome(usual)
}

// beside adds what the programs in a folder of the caller's need: where its links lead, the
// toolchains that rustup's proxies stand for, and what is installed beside it.
func (s *toolSearch) beside(dir, bin string) {
	c := s.caller
	switch {
	case slices.Contains([]string{dir, bin}, filepath.Join(c.folder("CARGO_HOME", ".cargo"), "bin")):
		// Shows the toolchains, which the proxies in cargo's folder start, under a layer of the
		// sandbox's own: a proxy makes folders beside them. CARGO_HOME is not set: cargo's folder
		// is the one in the home inside.
		home := real(s.caller.folder("RUSTUP_HOME", ".rustup"))
		if _, err := os.Stat(filepath.Join(home, "toolchains")); home != "" && err == nil && s.mayBeTree(home) {
			s.layer(home, home)
			s.setenv("RUSTUP_HOME", home)
		}
	case slices.Contains([]string{dir, bin}, c.inHome(".local/bin")):
		for _, tree := range []string{".local/share/claude/versions", ".local/share/uv/tools", ".local/share/pipx/venvs", ".local/pipx/venvs"} {
			s.showFolder(c.inHome(tree))
		}
		// Shows the Pythons that uv has installed, with a layer of the sandbox's own in which it
		// can install more, and the packages that `pip install --user` has put into the home.
		if dir := real(s.caller.folder("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python")); dir != "" && s.mayBeTree(dir) {
			s.layer(dir, dir)
			s.setenv("UV_PYTHON_INSTALL_DIR", dir)
		}
		lib := s.caller.inHome(".local/lib")
		entries, _ := os.ReadDir(lib) // most have none
		for _, entry := range entries {
			dir := filepath.Join(lib, entry.Name(), "site-packages")
			if strings.HasPrefix(entry.Name(), "python") && dir == real(dir) && s.mayBeTree(dir) {
				s.layer(dir, filepath.Join(s.caller.Inside, ".local/lib", entry.Name(), "site-packages"))
			}
		}
	}
	s.showFolder(filepath.Join(filepath.Dir(bin), "lib/node_modules")) // npm's prefix
	entries, err := os.ReadDir(bin)
	if err != nil {
		return
	}
	links := 0
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			continue
		}
		if links++; links > maxBinLinks {
			return
		}
		s.linked(filepath.Join(bin, entry.Name()))
	}
}

// linked shows what a link among the caller's programs leads to. What can't be shown dangles
// inside.
func (s *toolSearch) linked(path string) {
	target, err := os.Readlink(path)
	if err != nil {
		return
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	if inSystem(target) || s.shown(target) || !executable(path) || s.caller.hostile(path) {
		return
	}
	target, err = s.follow(path)
	if err != nil || inSystem(target) || s.caller.may(path, target) != nil {
		return
	}
	for _, tree := range treesOf(target, s.caller.Home) {
		s.showOptional(tree)
	}
}

func (s *toolSearch) layer(source, target string) {
	s.tool.Mounts = append(s.tool.Mounts, forage.Mount{Source: source, Target: target, Layered: true, Optional: true})
}

func (s *toolSearch) setenv(name, value string) {
	if s.tool.Env == nil {
		s.tool.Env = map[string]string{}
	}
	s.tool.Env[name] = value
}

// showFolder shows a folder of a tool's, if it is there.
func (s *toolSearch) showFolder(dir string) bool {
	path := real(dir)
	info, err := os.Stat(path)
	if path == "" || err != nil || !info.IsDir() || !s.mayBeTree(path) || s.caller.hostile(dir) {
		return false
	}
	s.showOptional(path)
	return true
}

// javaHome passes on JAVA_HOME, if that Java can be seen inside.
func (s *toolSearch) javaHome() {
	dir := s.caller.env("JAVA_HOME")
	if !filepath.IsAbs(dir) || s.caller.hostile(dir) {
		return
	}
	if path := real(dir); inSystem(path) || s.shown(path) {
		s.setenv("JAVA_HOME", path)
	}
}

// prefixTrees are the parts of a Node, Python, Go or Java installation that programs need, by the
// folder that its programs are in, wherever it is; nil is none. What lies beside them may be
// anything.
func prefixTrees(bin string) []string {
	prefix := filepath.Dir(bin)
	is := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { _, err := os.Stat(filepath.Join(prefix, name)); return err != nil })
	}
	var parts []string
	switch {
	case filepath.Base(bin) != "bin":
		return nil
	case is("lib/node_modules"): // Node's own, or npm's prefix; etc/npmrc is not for us
		parts = []string{"bin", "lib/node_modules", "include/node"}
	case is("pyvenv.cfg"):
		parts = []string{"bin", "lib", "pyvenv.cfg"}
	case is("bin/go", "pkg/tool", "VERSION"), is("release", "lib", "bin/java"):
		return []string{prefix}
	default:
		if library, _ := filepath.Glob(filepath.Join(prefix, "lib/python3*/os.py")); len(library) == 0 {
			return nil
		}
		parts = []string{"bin", "lib", "include", "share"}
	}
	var trees []string
	for _, part := range parts {
		if is(part) {
			trees = append(trees, filepath.Join(prefix, part))
		}
	}
	return trees
}

// real is path without links; "" if it is not there.
func real(path string) string {
	path, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	return path
}
