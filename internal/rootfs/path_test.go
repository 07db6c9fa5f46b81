package rootfs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"forage/internal/testdir"
)

// TestTools: the folders of PATH that come along, with the trees that they need and nothing around
// them.
func TestTools(t *testing.T) {
	const elf = "! \x7fELF"
	for _, tc := range []struct {
		name  string
		files []string
		path  string
		env   map[string]string
		want  []string // "layer", "env" and "out" beside those of Tool.lines
	}{
		{"the system's before another", []string{"bin/x" + elf}, "/usr/bin:HOME/bin:/usr/sbin", nil, []string{"mount HOME/bin", "path /usr/bin", "path HOME/bin"}},
		{"an unknown folder", []string{"secret/bin/x" + elf, "secret/key"}, "HOME/secret/bin:HOME/gone:here", nil,
			[]string{"out HOME/secret/bin: it is no kind of tool folder that Forage knows", "out HOME/gone: it is not there", "out here: it is relative to the current folder"}},
		{"the home itself", []string{"x" + elf}, "HOME", nil, []string{"out HOME: it is no kind of tool folder that Forage knows"}},
		{"the workspace's", []string{"work/bin/x" + elf, "bin -> work/bin", ".nvm/versions/node/v1 -> HOME/work", "work/lib/node_modules/x"}, "HOME/work/bin:HOME/bin:HOME/.nvm/versions/node/v1/bin", nil,
			[]string{"out HOME/work/bin: it is in the workspace, which the agent can change", "out HOME/bin: it is in the workspace, which the agent can change", "out HOME/.nvm/versions/node/v1/bin: it is in the workspace, which the agent can change"}},
		{"go's", []string{"go/bin/x" + elf, "go/pkg/mod/x", "sdk/go1.30/bin/go" + elf, "sdk/go1.30/pkg/tool/x", "sdk/go1.30/VERSION"}, "HOME/go/bin:HOME/sdk/go1.30/bin", nil,
			[]string{"mount HOME/go/bin", "mount HOME/sdk/go1.30", "path HOME/go/bin", "path HOME/sdk/go1.30/bin"}},
		{"~/.local/bin, and where its links lead", []string{".local/bin/own" + elf, ".local/bin/claude -> HOME/.local/share/claude/versions/2", ".local/share/claude/versions/2" + elf, ".local/bin/mine -> HOME/src/mine", "src/mine" + elf, "src/other",
			".local/bin/gone -> HOME/nothing", ".local/bin/evil -> HOME/work/x", "work/x -> HOME/.ssh/id", ".ssh/id" + elf, ".local/share/uv/python/cpython-3.12/bin/python3.12" + elf, ".local/bin/python3.12 -> HOME/.local/share/uv/python/cpython-3.12/bin/python3.12",
			".local/lib/python3.12/site-packages/x.py", ".local/share/keyrings/x"}, "HOME/.local/bin", nil,
			[]string{"mount HOME/.local/bin", "mount HOME/.local/share/claude/versions", "layer HOME/.local/share/uv/python at HOME/.local/share/uv/python",
				"layer HOME/.local/lib/python3.12/site-packages at /h/.local/lib/python3.12/site-packages", "mount HOME/src/mine", "path HOME/.local/bin", "env UV_PYTHON_INSTALL_DIR=HOME/.local/share/uv/python"}},
		{"npm's prefix", []string{".npm-global/bin/gem -> ../lib/node_modules/gem/cli.js", ".npm-global/lib/node_modules/gem/cli.js! #!/usr/bin/env node\\n", ".npm-global/etc/npmrc: token"}, "HOME/.npm-global/bin", nil,
			[]string{"mount HOME/.npm-global/bin", "mount HOME/.npm-global/lib/node_modules", "path HOME/.npm-global/bin"}},
		{"nvm, with a token", []string{".nvm/versions/node/v22/bin/node" + elf, ".nvm/versions/node/v22/lib/node_modules/npm/x", ".nvm/versions/node/v22/etc/npmrc: token"}, "HOME/.nvm/versions/node/v22/bin", nil,
			[]string{"mount HOME/.nvm/versions/node/v22/bin", "mount HOME/.nvm/versions/node/v22/lib", "path HOME/.nvm/versions/node/v22/bin"}},
		{"fnm's folder of one shell", []string{"run/fnm/1 -> HOME/.local/share/fnm/node-versions/v22/installation", ".local/share/fnm/node-versions/v22/installation/bin/node" + elf}, "HOME/run/fnm/1/bin", nil,
			[]string{"mount HOME/.local/share/fnm/node-versions/v22/installation", "path HOME/.local/share/fnm/node-versions/v22/installation/bin"}},
		{"volta", []string{".volta/bin/node -> volta-shim", ".volta/bin/volta-shim" + elf, ".volta/tools/user/platform.json: {\"node\":{\"runtime\":\"22.1.0\",\"npm\":null},\"yarn\":\"4.0.0\"}",
			".volta/tools/image/node/22.1.0/bin/node" + elf, ".volta/tools/image/node/20.0.0/bin/node" + elf, ".volta/tools/image/yarn/4.0.0/bin/yarn" + elf, ".volta/tools/image/packages/gem/bin/gem" + elf}, "HOME/.volta/bin", nil,
			[]string{"mount HOME/.volta/tools/image/packages", "mount HOME/.volta/tools/image/yarn/4.0.0", "mount HOME/.volta/tools/image/node/22.1.0",
				"path HOME/.volta/tools/image/packages/gem/bin", "path HOME/.volta/tools/image/yarn/4.0.0/bin", "path HOME/.volta/tools/image/node/22.1.0/bin"}},
		{"pyenv, in the project", []string{".pyenv/shims/python" + elf, ".pyenv/version: 3.12.1\\n", ".pyenv/versions/3.12.1/bin/python3" + elf, ".pyenv/versions/3.11.9/bin/python3" + elf, ".pyenv/versions/3.11.10/bin/python3" + elf, "work/.python-version: 3.11\\n"}, "HOME/.pyenv/shims", nil,
			[]string{"mount HOME/.pyenv/versions/3.11.10", "path HOME/.pyenv/versions/3.11.10/bin"}},
		{"pyenv, an evil project", []string{".pyenv/shims/python" + elf, ".pyenv/versions/3.12.1/bin/python3" + elf, ".ssh/bin/id", "work/.python-version: ../../.ssh .. . / HOME/.ssh\\n"}, "HOME/.pyenv/shims", nil,
			[]string{"out HOME/.pyenv/shims: its shims stand for a version, and none is chosen and installed"}},
		{"pyenv, a link for a file", []string{".pyenv/shims/python" + elf, ".pyenv/versions/3.12.1/bin/python3" + elf, "secret: 3.12.1\\n", "work/.python-version -> HOME/secret"}, "HOME/.pyenv/shims", nil,
			[]string{"out HOME/.pyenv/shims: its shims stand for a version, and none is chosen and installed"}},
		{"pyenv, a virtual environment", []string{".pyenv/shims/python" + elf, ".pyenv/versions/3.12.1/bin/python3" + elf, ".pyenv/versions/3.12.1/envs/app/bin/python3 -> HOME/.pyenv/versions/3.12.1/bin/python3", ".pyenv/versions/app -> HOME/.pyenv/versions/3.12.1/envs/app"}, "HOME/.pyenv/shims", map[string]string{"PYENV_VERSION": "app"},
			[]string{"mount HOME/.pyenv/versions/3.12.1", "path HOME/.pyenv/versions/3.12.1/envs/app/bin"}},
		{"rustup", []string{".cargo/bin/cargo -> rustup", ".cargo/bin/rustup" + elf, ".cargo/credentials.toml: token", ".cargo/config.toml: token", ".rustup/settings.toml", ".rustup/toolchains/stable/bin/cargo" + elf, ".rustup/tmp/x"}, "HOME/.cargo/bin", nil,
			[]string{"mount HOME/.cargo/bin", "layer HOME/.rustup at HOME/.rustup", "path HOME/.cargo/bin", "env RUSTUP_HOME=HOME/.rustup"}},
		{"asdf", []string{".asdf/shims/node" + elf, ".asdf/installs/nodejs/22.1.0/bin/node" + elf, ".asdf/installs/golang/1.30/go/bin/go" + elf, ".tool-versions: golang 1.30\\nnodejs 18\\n", "work/.tool-versions: nodejs 22.1.0 # now\\n"}, "HOME/.asdf/shims", nil,
			[]string{"mount HOME/.asdf/installs/nodejs/22.1.0", "mount HOME/.asdf/installs/golang/1.30", "path HOME/.asdf/installs/golang/1.30/go/bin", "path HOME/.asdf/installs/nodejs/22.1.0/bin"}},
		{"mise", []string{".local/share/mise/shims/node" + elf, ".local/share/mise/installs/node/22.1.0/bin/node" + elf, ".local/share/mise/installs/node/22 -> ./22.1.0", "work/mise.toml: [tools]\\nnode = [\"22\"]\\npython = \"../..\"\\n", ".config/mise/config.toml: [tools]\\nnode = \"18\"\\n"}, "HOME/.local/share/mise/shims", nil,
			[]string{"mount HOME/.local/share/mise/installs/node/22.1.0", "path HOME/.local/share/mise/installs/node/22.1.0/bin"}},
		{"SDKMAN", []string{".sdkman/candidates/java/21-tem/bin/java" + elf, ".sdkman/candidates/java/current -> 21-tem", ".sdkman/candidates/maven/3/bin/mvn" + elf, ".sdkman/candidates/maven/3/conf/settings.xml: token"}, "HOME/.sdkman/candidates/java/current/bin:HOME/.sdkman/candidates/maven/3/bin",
			map[string]string{"JAVA_HOME": "HOME/.sdkman/candidates/java/current"},
			[]string{"mount HOME/.sdkman/candidates/java/21-tem", "mount HOME/.sdkman/candidates/maven/3/bin", "path HOME/.sdkman/candidates/java/21-tem/bin", "path HOME/.sdkman/candidates/maven/3/bin", "env JAVA_HOME=HOME/.sdkman/candidates/java/21-tem"}},
		{"an activated virtual environment", []string{"envs/app/bin/python3 -> /usr/bin/env", "envs/app/pyvenv.cfg", "envs/app/lib/x", "envs/app/.env: token"}, "HOME/envs/app/bin", nil,
			[]string{"mount HOME/envs/app/bin", "mount HOME/envs/app/lib", "mount HOME/envs/app/pyvenv.cfg", "path HOME/envs/app/bin"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := home(t, append(tc.files, ".keep")...)
			inHome := func(s string) string { return strings.ReplaceAll(s, "HOME", dir) }
			tool, found, err := Tools(nil, Caller{Path: inHome(tc.path), Home: dir, Hostile: []string{dir + "/work"}, Project: dir + "/work", Inside: "/h",
				Getenv: func(name string) (string, bool) { v, ok := tc.env[name]; return inHome(v), ok }})
			testdir.Must(t, err)
			var got []string
			mounts := tool.Mounts
			tool.Mounts = nil
			for _, m := range mounts {
				if !m.Optional || m.Writable || m.System == m.Layered || Within(dir, m.Source) {
					t.Errorf("%+v", m)
				}
				if m.Layered {
					got = append(got, "layer "+m.Source+" at "+m.Target)
				} else {
					got = append(got, "mount "+m.Target)
				}
			}
			got = append(got, tool.lines(dir)...)
			for _, name := range slices.Sorted(maps.Keys(tool.Env)) {
				got = append(got, "env "+name+"="+tool.Env[name])
				if !slices.Contains(ToolVariables(), name) {
					t.Errorf("%s is not among ToolVariables", name)
				}
			}
			for _, f := range found {
				if f.Why != "" {
					got = append(got, "out "+f.Path+": "+f.Why)
				}
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], dir, "HOME")
			}
			testdir.Same(t, "", tc.want, got)
		})
	}
}
