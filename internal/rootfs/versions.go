package rootfs

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// manager is a version manager: a tool that installs versions of others, side by side.
type manager struct {
	variable, usual string // its folder: what a variable names, or below the home
	installs        string // in it: where versions are installed
	depth           int    // how many folders below that a version is
	shims           string // in it: programs that look for the version and start it; "" is none
	// resolve returns the folders of programs that the shims stand for, and shows them.
	resolve func(*toolSearch, manager) []string
	version string // variable that names the version
	file    string // file of a project that names it
}

func managers() []manager {
	return []manager{
		{variable: "NVM_DIR", usual: ".nvm", installs: "versions/node", depth: 1},
		{variable: "FNM_DIR", usual: ".local/share/fnm", installs: "node-versions", depth: 2},
		{variable: "FNM_DIR", usual: ".fnm", installs: "node-versions", depth: 2},
		{variable: "VOLTA_HOME", usual: ".volta", installs: "tools/image", depth: 2, shims: "bin", resolve: voltaShims},
		{variable: "PYENV_ROOT", usual: ".pyenv", installs: "versions", depth: 1, shims: "shims", resolve: envShims, version: "PYENV_VERSION", file: ".python-version"},
		{variable: "RBENV_ROOT", usual: ".rbenv", installs: "versions", depth: 1, shims: "shims", resolve: envShims, version: "RBENV_VERSION", file: ".ruby-version"},
		{variable: "ASDF_DATA_DIR", usual: ".asdf", installs: "installs", depth: 2, shims: "shims", resolve: toolVersions},
		{variable: "MISE_DATA_DIR", usual: ".local/share/mise", installs: "installs", depth: 2, shims: "shims", resolve: toolVersions},
		{variable: "SDKMAN_DIR", usual: ".sdkman", installs: "candidates", depth: 2},
		{variable: "RUSTUP_HOME", usual: ".rustup", installs: "toolchains", depth: 1},
		{usual: ".local/share/uv/python", depth: 1},
		{usual: ".local/share/uv/tools", depth: 1},
		{usual: ".local/share/pipx/venvs", depth: 1},
	}
}

func (m manager) root(caller Caller) string { return caller.folder(m.variable, m.usual) }

// in is what the manager has installed as name; "" if there is no such version. name may come from
// the project: it leads nowhere else.
func (m manager) in(caller Caller, name ...string) string {
	for _, part := range name {
		if part == "" || !filepath.IsLocal(part) || strings.ContainsRune(part, '/') {
			return ""
		}
	}
	base := real(filepath.Join(m.root(caller), m.installs))
	dir := real(filepath.Join(append([]string{base}, name...)...))
	if base == "" || dir == "" || dir == base || !Within(dir, base) {
		return ""
	}
	return dir
}

// shimsOf is the manager whose shims are in dir.
func (s *toolSearch) shimsOf(dir string) (manager, bool) {
	for _, m := range s.managers {
		if root := m.root(s.caller); m.shims != "" && root != "" && dir == filepath.Join(root, m.shims) {
			return m, true
		}
	}
	return manager{}, false
}

// installed are the trees of the version of something that path is in; nil is none.
func (s *toolSearch) installed(path string) []string {
	if s.bases == nil { // asked for many times
		for _, m := range s.managers {
			s.bases = append(s.bases, real(filepath.Join(m.root(s.caller), m.installs)))
		}
	}
	for i, m := range s.managers {
		base := s.bases[i]
		if base == "" || !Within(path, base) {
			continue
		}
		parts := strings.Split(strings.TrimPrefix(path, base+"/"), "/")
		if len(parts) <= m.depth {
			return nil
		}
		return versionTrees(filepath.Join(base, filepath.Join(parts[:m.depth]...)))
	}
	return nil
}

// versionTrees is one version of a tool: all of it, or, where settings that can have credentials
// lie in it (npm's global ones, Maven's), all of its folders but those.
func versionTrees(dir string) []string {
	settings := []string{"etc/npmrc", "conf/settings.xml"}
	if !slices.ContainsFunc(settings, func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }) {
		return []string{dir}
	}
	var trees []string
	for _, name := range []string{"bin", "boot", "lib", "include", "share"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			trees = append(trees, filepath.Join(dir, name))
		}
	}
	return trees
}

// use shows a version and returns its folder of programs, "" if it has none.
func (s *toolSearch) use(dir string) string {
	if dir == "" || s.caller.hostile(dir) {
		return ""
	}
	for _, tree := range versionTrees(dir) {
		if s.mayBeTree(tree) {
			s.showOptional(tree)
		}
	}
	for _, name := range []string{"bin", "go/bin"} {
		if bin := filepath.Join(dir, name); real(bin) == bin {
			return bin
		}
	}
	return dir
}

// envShims resolves the shims of pyenv and those made after it: the version is named by a variable,
// by the project's file or by the file "version".
func envShims(s *toolSearch, m manager) []string {
	text := strings.ReplaceAll(s.caller.env(m.version), ":", "\n")
	for _, file := range []string{filepath.Join(s.caller.Project, m.file), filepath.Join(m.root(s.caller), "version")} {
		if strings.TrimSpace(text) == "" && filepath.IsAbs(file) {
			text = s.text(file)
		}
	}
	var dirs []string
	for _, version := range strings.Fields(text) {
		dir := m.in(s.caller, version)
		if dir == "" {
			dir = m.in(s.caller, newest(filepath.Join(m.root(s.caller), m.installs), version+"."))
		}
		if bin := s.use(dir); bin != "" {
			dirs = append(dirs, bin)
			s.base(bin)
		}
	}
	return dirs
}

// base shows the Python that a virtual environment is made from.
func (s *toolSearch) base(bin string) {
	if target := real(filepath.Join(bin, "python3")); target != "" && !inSystem(target) && !s.shown(target) {
		for _, tree := range s.installed(target) {
			s.showOptional(tree)
		}
	}
}

// newest is the last of the names in dir that begin with prefix, as versions go; "" is none.
func newest(dir, prefix string) string {
	entries, _ := os.ReadDir(dir)
	best := ""
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, prefix) && (len(name) > len(best) || len(name) == len(best) && name > best) {
			best = name
		}
	}
	return best
}

// toolVersions resolves the shims of asdf and mise: the project's files name versions, then the
// caller's.
func toolVersions(s *toolSearch, m manager) []string {
	var dirs, known []string
	add := func(tool string, versions []string) {
		if slices.Contains(known, tool) {
			return
		}
		known = append(known, tool)
		for _, version := range versions {
			if bin := s.use(m.in(s.caller, strings.NewReplacer(":", "-", "/", "-").Replace(tool), version)); bin != "" {
				dirs = append(dirs, bin)
				return
			}
		}
	}
	project, home := s.caller.Project, s.caller.Home
	for _, file := range []string{
		filepath.Join(project, "mise.toml"), filepath.Join(project, ".mise.toml"), filepath.Join(project, ".tool-versions"),
		filepath.Join(s.caller.folder("XDG_CONFIG_HOME", ".config"), "mise/config.toml"), filepath.Join(home, ".tool-versions"),
	} {
		if !filepath.IsAbs(file) {
			continue
		}
		text := s.text(file)
		if filepath.Ext(file) == ".toml" {
			for tool, versions := range miseTools(text) {
				add(tool, versions)
			}
			continue
		}
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "#")
			if words := strings.Fields(line); len(words) > 1 {
				add(words[0], words[1:])
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// miseTools are the versions that a file of mise's asks for, in the lines of its table tools:
// node = "20", node = ["20", "18"], node = { version = "20" }.
func miseTools(text string) map[string][]string {
	tools, within := map[string][]string{}, false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
			within = line == "[tools]"
			continue
		}
		tool, value, ok := strings.Cut(line, "=")
		if !within || !ok {
			continue
		}
		tool = strings.Trim(strings.TrimSpace(tool), `"'`)
		_, version, table := strings.Cut(value, "version")
		if table {
			value = version
		}
		words := strings.Split(strings.ReplaceAll(value, "'", `"`), `"`)
		for i := 1; i < len(words); i += 2 { // between quotes
			tools[tool] = append(tools[tool], words[i])
			if table {
				break
			}
		}
	}
	return tools
}

// voltaShims resolves Volta's: the versions are in platform.json, and packages are installed beside
// them.
func voltaShims(s *toolSearch, m manager) []string {
	root := m.root(s.caller)
	var platform struct {
		Node struct {
			Runtime string  `json:"runtime"`
			NPM     *string `json:"npm"`
		} `json:"node"`
		PNPM, Yarn *string
	}
	if json.Unmarshal([]byte(s.text(filepath.Join(root, "tools/user/platform.json"))), &platform) != nil {
		return nil
	}
	var dirs []string
	packages := real(filepath.Join(root, m.installs, "packages"))
	for _, pattern := range []string{"*/bin", "@*/*/bin"} {
		bins, _ := filepath.Glob(filepath.Join(packages, pattern))
		dirs = append(dirs, bins...)
	}
	if packages == "" || !s.showFolder(packages) {
		dirs = nil
	}
	for _, tool := range []struct {
		name    string
		version *string
	}{{"npm", platform.Node.NPM}, {"pnpm", platform.PNPM}, {"yarn", platform.Yarn}, {"node", &platform.Node.Runtime}} {
		if tool.version == nil {
			continue
		}
		if bin := s.use(m.in(s.caller, tool.name, *tool.version)); bin != "" {
			dirs = append(dirs, bin)
		}
	}
	return dirs
}

// text is the text of a small file; "" is none. In the project there may be anything: no link is
// followed.
func (s *toolSearch) text(path string) string {
	flags := os.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	if s.caller.Project != "" && Within(path, s.caller.Project) {
		flags |= unix.O_NOFOLLOW
	}
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(file, 64<<10))
	return string(text)
}
