package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// treeOf is the folder that belongs to the program at path (absolute, without
// links), as the ways of installing programs in a home lay it out, or the
// file alone where none is known.
func treeOf(path string) string {
	for _, find := range []func(string) string{nodeTree, brewTree, pythonTree} {
		if tree := find(path); tree != "" && !tooWide(tree) && !private(tree) {
			return tree
		}
	}
	return path
}

// nodeTree is a package below a node_modules folder. A package that npm
// installed globally (PREFIX/lib/node_modules/NAME) has its dependencies inside; in
// pnpm's store, and in a local node_modules, they lie beside it.
func nodeTree(path string) string {
	if at := strings.Index(path, "/.pnpm/"); at >= 0 {
		return path[:at] + "/.pnpm"
	}
	prefix, rest, ok := strings.Cut(path, "/node_modules/")
	if !ok {
		return ""
	}
	modules := prefix + "/node_modules"
	if filepath.Base(prefix) != "lib" {
		return modules
	}
	parts := strings.Split(rest, "/")
	if strings.HasPrefix(parts[0], "@") && len(parts) > 1 {
		return filepath.Join(modules, parts[0], parts[1])
	}
	return filepath.Join(modules, parts[0])
}

// brewTree is Homebrew's own prefix: programs there use libraries all over it.
func brewTree(path string) string {
	const prefix = "/home/linuxbrew/.linuxbrew"
	if Within(path, prefix) {
		return prefix
	}
	return ""
}

// pythonTree is the prefix PREFIX of PREFIX/bin/PROGRAM where that is a
// virtual environment or a Python installation (pyenv, uv, pipx).
func pythonTree(path string) string {
	bin := filepath.Dir(path)
	if filepath.Base(bin) != "bin" {
		return ""
	}
	prefix := filepath.Dir(bin)
	if _, err := os.Stat(filepath.Join(prefix, "pyvenv.cfg")); err == nil {
		return prefix
	}
	name := filepath.Base(path)
	library, err := filepath.Glob(filepath.Join(prefix, "lib", "python3*", "os.py"))
	if err == nil && len(library) > 0 && (strings.HasPrefix(name, "python") || filepath.Base(filepath.Dir(prefix)) == "versions") {
		return prefix
	}
	return ""
}

// privateFolders hold keys and settings: no program's tree is one of them.
var privateFolders = []string{
	".config", ".claude", ".codex", ".gemini", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".local",
	".mozilla", ".password-store", ".netrc", "Documents", "Desktop", "Downloads",
}

func private(tree string) bool { return slices.Contains(privateFolders, filepath.Base(tree)) }

// pyenvTarget is the program that a shim of pyenv's stands for, by the version
// that pyenv uses everywhere (its file "version"). Shims themselves search the
// caller's folders for a version and start pyenv, none of which is visible inside.
func pyenvTarget(path string) (string, bool) {
	root, name := filepath.Dir(filepath.Dir(path)), filepath.Base(path)
	if filepath.Base(filepath.Dir(path)) != "shims" {
		return "", false
	}
	text, err := os.ReadFile(filepath.Join(root, "version"))
	if err != nil {
		return "", false
	}
	for _, version := range strings.Fields(string(text)) {
		target := filepath.Join(root, "versions", version, "bin", name)
		if !strings.ContainsRune(version, '/') && executable(target) {
			return target, true
		}
	}
	return "", false
}
