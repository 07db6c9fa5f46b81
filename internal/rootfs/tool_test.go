package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/testdir"
)

// home makes a home folder from lines: "a/b" is an empty file, "a/b: text" one with
// content, "a/b! text" a program, "a/b -> c" a link, "a/" a folder. HOME in texts is its path.
func home(t testing.TB, lines ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testdir.Must(t, err)
	dir = filepath.Join(dir, "home")
	for _, line := range lines {
		line = strings.ReplaceAll(line, "HOME", dir)
		name, text, mode := line, "", os.FileMode(0o644)
		link := false
		for mark, m := range map[string]os.FileMode{": ": 0o644, "! ": 0o755, " -> ": os.ModeSymlink} {
			if before, after, ok := strings.Cut(line, mark); ok && len(before) < len(name) {
				name, text, mode, link = before, after, m, m == os.ModeSymlink
			}
		}
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			must(t, os.Symlink(text, path))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
		default:
			must(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, `\n`, "\n")), mode))
		}
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	testdir.Must(t, err)
}

// lines is a tool as text, with HOME for the home folder.
func (tool Tool) lines(dir string) []string {
	var list []string
	for _, m := range tool.Mounts {
		line := "mount " + m.Target
		if m.Source != m.Target || m.Writable || !m.System {
			line += " (wrong)"
		}
		list = append(list, line)
	}
	for _, l := range tool.Links {
		list = append(list, "link "+l.Path+" -> "+l.Target)
	}
	for _, d := range tool.Dirs {
		list = append(list, "path "+d)
	}
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], dir, "HOME")
	}
	return list
}

// hostTool is what a command alone takes.
func hostTool(command string, caller Caller) (Tool, error) {
	s := newSearch(caller)
	err := s.command(command, 0)
	return s.done(), err
}

func TestHostTool(t *testing.T) {
	const elf = "! \x7fELF"
	for _, tc := range []struct {
		name    string
		files   []string
		path    string
		command string
		want    []string
	}{
		{"a native program with its versions", []string{".local/bin/claude -> HOME/.local/share/claude/versions/2.1", ".local/share/claude/versions/2.1" + elf, ".local/share/claude/secret", ".claude/.credentials.json"},
			"HOME/.local/bin", "claude",
			[]string{"mount HOME/.local/share/claude/versions/2.1", "link HOME/.local/bin/claude -> HOME/.local/share/claude/versions/2.1", "path HOME/.local/bin"}},
		{"npm prefix, a script", []string{".npm-global/bin/codex -> ../lib/node_modules/@openai/codex/bin/codex.js", ".npm-global/lib/node_modules/@openai/codex/bin/codex.js! #!/bin/sh\\n", ".npm-global/lib/node_modules/other/x", ".npm-global/lib/node_modules/@openai/other/x", ".npmrc: token"},
			"HOME/.npm-global/bin", "codex",
			[]string{"mount HOME/.npm-global/lib/node_modules/@openai/codex", "link HOME/.npm-global/bin/codex -> HOME/.npm-global/lib/node_modules/@openai/codex/bin/codex.js", "path HOME/.npm-global/bin"}},
		{"nvm, with its own node", []string{".nvm/versions/node/v22/bin/node" + elf, ".nvm/versions/node/v22/bin/npm -> ../lib/node_modules/npm/bin/npm-cli.js", ".nvm/versions/node/v22/bin/npx -> ../lib/node_modules/npm/bin/npx-cli.js",
			".nvm/versions/node/v22/lib/node_modules/npm/bin/npm-cli.js! #!/usr/bin/env node\\n", ".nvm/versions/node/v22/lib/node_modules/npm/bin/npx-cli.js! #!/usr/bin/env node\\n",
			".nvm/versions/node/v22/lib/node_modules/gem/cli.js! #!/usr/bin/env -S node --flag\\n", ".nvm/versions/node/v22/bin/gem -> ../lib/node_modules/gem/cli.js", ".nvm/versions/node/v22/etc/npmrc: token", ".nvm/alias/default"},
			"HOME/.nvm/versions/node/v22/bin", "gem",
			[]string{"mount HOME/.nvm/versions/node/v22/lib/node_modules/gem", "mount HOME/.nvm/versions/node/v22/bin/node", "mount HOME/.nvm/versions/node/v22/lib/node_modules/npm",
				"link HOME/.nvm/versions/node/v22/bin/gem -> HOME/.nvm/versions/node/v22/lib/node_modules/gem/cli.js",
				"link HOME/.nvm/versions/node/v22/bin/npm -> HOME/.nvm/versions/node/v22/lib/node_modules/npm/bin/npm-cli.js",
				"link HOME/.nvm/versions/node/v22/bin/npx -> HOME/.nvm/versions/node/v22/lib/node_modules/npm/bin/npx-cli.js",
				"path HOME/.nvm/versions/node/v22/bin"}},
		{"pnpm's launcher", []string{".local/share/pnpm/agent! #!/bin/sh\\nbasedir=$(dirname \"$0\")\\nexec HOME/bin/node \"$basedir/global/5/node_modules/agent/cli.js\" \"$@\"\\n",
			".local/share/pnpm/global/5/node_modules/agent -> .pnpm/agent@1/node_modules/agent", ".local/share/pnpm/global/5/node_modules/.pnpm/agent@1/node_modules/agent/cli.js! #!/bin/sh\\n", ".local/share/pnpm/global/5/package.json"},
			"HOME/.local/share/pnpm", "agent",
			[]string{"mount HOME/.local/share/pnpm/agent", "mount HOME/.local/share/pnpm/global/5/node_modules/.pnpm", "path HOME/.local/share/pnpm"}},
		{"pyenv's shim", []string{".pyenv/shims/tool! #!/usr/bin/env bash\\nexec pyenv exec\\n", ".pyenv/version: 3.12.1\\n", ".pyenv/versions/3.12.1/bin/tool! #!HOME/.pyenv/versions/3.12.1/bin/python3.12\\n", ".pyenv/versions/3.12.1/bin/python3.12" + elf, ".pyenv/versions/3.12.1/lib/python3.12/os.py", ".pyenv/versions/3.11.0/bin/tool" + elf},
			"HOME/.pyenv/shims", "tool",
			[]string{"mount HOME/.pyenv/versions/3.12.1", "path HOME/.pyenv/versions/3.12.1/bin"}},
		{"uv's own python", []string{".local/bin/tool -> ../share/uv/tools/t/bin/tool", ".local/share/uv/tools/t/bin/tool! #!HOME/.local/share/uv/tools/t/bin/python\\n", ".local/share/uv/tools/t/pyvenv.cfg", ".local/share/uv/tools/t/bin/python -> HOME/.local/share/uv/python/cpython-3.12/bin/python3.12",
			".local/share/uv/python/cpython-3.12/bin/python3.12" + elf, ".local/share/uv/python/cpython-3.12/lib/python3.12/os.py"},
			"HOME/.local/bin", "tool",
			[]string{"mount HOME/.local/share/uv/tools/t", "mount HOME/.local/share/uv/python/cpython-3.12", "link HOME/.local/bin/tool -> HOME/.local/share/uv/tools/t/bin/tool", "path HOME/.local/bin"}},
		{"cargo: the file alone", []string{".cargo/bin/rg" + elf, ".cargo/credentials.toml: token", ".cargo/bin/cargo" + elf}, "HOME/.cargo/bin", "rg",
			[]string{"mount HOME/.cargo/bin/rg", "path HOME/.cargo/bin"}},
		{"a virtual environment that is the home", []string{"pyvenv.cfg", "bin/tool! #!/bin/sh\\n", ".ssh/id"}, "HOME/bin", "tool", []string{"mount HOME/bin/tool", "path HOME/bin"}},
		{"a folder of settings", []string{".config/pyvenv.cfg", ".config/bin/tool" + elf, ".config/gh/hosts.yml: token"}, "HOME/.config/bin", "tool", []string{"mount HOME/.config/bin/tool", "path HOME/.config/bin"}},
		{"a chain of links", []string{"a -> b", "b -> c/d", "c/d -> ../e", "e" + elf}, "HOME", "a",
			[]string{"mount HOME/e", "link HOME/a -> HOME/b", "link HOME/b -> HOME/c/d", "link HOME/c/d -> HOME/e", "path HOME"}},
		{"a relative folder on the path", []string{"bin/tool" + elf}, "bin:.", "tool", nil},
		{"in the workspace", []string{"work/bin/tool" + elf}, "HOME/work/bin", "tool", nil},
		{"in the workspace first", []string{"work/bin/tool -> ../../secret/bin/tool", "secret/bin/tool" + elf, "bin/tool" + elf}, "HOME/work/bin:HOME/bin", "tool", []string{"mount HOME/bin/tool", "path HOME/bin"}},
		{"in the workspace by a link", []string{"work/bin/tool" + elf, "bin -> work/bin"}, "HOME/bin", "tool", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := home(t, append(tc.files, ".keep")...)
			inHome := func(s string) string { return strings.ReplaceAll(s, "HOME", dir) }
			tool, err := hostTool(inHome(tc.command), Caller{Path: inHome(tc.path), Home: dir, Hostile: []string{dir + "/work"}})
			testdir.Must(t, err)
			testdir.Same(t, "", tc.want, tool.lines(dir))
			for _, m := range tool.Mounts {
				if Within(dir, m.Source) {
					t.Errorf("%s holds the home", m.Source)
				}
			}
		})
	}
}

func TestHostToolErrors(t *testing.T) {
	dir := home(t, "a/x1! #!HOME/a/x2\\n", "a/x2! #!HOME/a/x1\\n", "bin/tool -> ../work/tool", "work/tool! \x7fELF")
	caller := Caller{Path: dir + "/a:" + dir + "/bin", Home: dir, Hostile: []string{dir + "/work"}}
	if _, err := hostTool("x1", caller); err == nil {
		t.Error("interpreters that interpret each other")
	}
	if _, err := hostTool("tool", caller); err == nil {
		t.Error("a link into the workspace")
	}
}
