package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// treesOf are the folders that belong to the program at path (absolute, without
// links), as the ways of installing programs in a home lay them out, or the
// file alone where none is known. No tree holds home.
func treesOf(path, home string) []string {
	for _, find := range []func(string) []string{nodeTree, brewTrees, pythonTree} {
		trees := slices.DeleteFunc(find(path), func(tree string) bool {
			return tooWide(tree) || private(tree) || home != "" && Within(home, tree)
		})
		if len(trees) > 0 {
			return trees
		}
	}
	return []string{path}
}

// nodeTree is a package below a node_modules folder. A package that npm
// installed globally (PREFIX/lib/node_modules/NAME) has its dependencies inside; in
// pnpm's store, and in a local node_modules, they lie beside it.
func nodeTree(path string) []string {
	if at := strings.Index(path, "/.pnpm/"); at >= 0 {
		return []string{path[:at] + "/.pnpm"}
	}
	prefix, rest, ok := strings.Cut(path, "/node_modules/")
	if !ok {
		return nil
	}
	modules := prefix + "/node_modules"
	if filepath.Base(prefix) != "lib" {
		return []string{modules}
	}
	parts := strings.Split(rest, "/")
	if strings.HasPrefix(parts[0], "@") && len(parts) > 1 {
		return []string{filepath.Join(modules, parts[0], parts[1])}
	}
	return []string{filepath.Join(modules, parts[0])}
}

// brewTrees are the parts of Homebrew's prefix that programs are in: they use
// libraries all over it. Its services keep their data and settings in the others.
func brewTrees(path string) []string {
	const prefix = "/home/linuxbrew/.linuxbrew"
	if !Within(path, prefix) {
		return nil
	}
	var trees []string
	for _, name := range []string{"bin", "sbin", "Cellar", "opt", "lib", "share", "etc/openssl@3", "etc/ca-certificates"} {
		if info, err := os.Stat(filepath.Join(prefix, name)); err == nil && info.IsDir() {
			trees = append(trees, filepath.Join(prefix, name))
		}
	}
	return trees
}

// pythonTree is the prefix PREFIX of PREFIX/bin/PROGRAM where that is a
// virtual environment or a Python installation (pyenv, uv, pipx).
func pythonTree(path string) []string {
	bin := filepath.Dir(path)
	if filepath.Base(bin) != "bin" {
		return nil
	}
	prefix := filepath.Dir(bin)
	if _, err := os.Stat(filepath.Join(prefix, "pyvenv.cfg")); err == nil {
		return []string{prefix}
	}
	name := filepath.Base(path)
	library, err := filepath.Glob(filepath.Join(prefix, "lib", "python3*", "os.py"))
	if err == nil && len(library) > 0 && (strings.HasPrefix(name, "python") || filepath.Base(filepath.Dir(prefix)) == "versions") {
		return []string{prefix}
	}
	return nil
}

// privateFolders hold keys and settings: no program's tree is one of them.
var privateFolders = []string{
	".config", ".claude", ".codex", ".gemini", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".local",
	".mozilla", ".password-store", ".netrc", "Documents", "Desktop", "Downloads",
}

func private(tree string) bool { return slices.Contains(privateFolders, filepath.Base(tree)) }
