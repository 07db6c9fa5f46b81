package hostset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"forage"
	"forage/internal/testdir"
)

// world is a home with tools that say what is configured.
type world struct {
	home  string
	env   map[string]string
	pages map[string]string // what Get fetches
	trust func(string) bool
}

// newWorld makes programs (name to shell script) and files below the home.
func newWorld(t *testing.T, programs, files map[string]string) *world {
	t.Helper()
	w := &world{home: t.TempDir(), env: map[string]string{}, pages: map[string]string{}, trust: func(string) bool { return true }}
	for name, text := range files {
		w.write(t, name, text, 0o600)
	}
	for name, script := range programs {
		w.write(t, "bin/"+name, "#!/bin/sh\n"+script+"\n", 0o700)
	}
	return w
}

func (w *world) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(w.home, name)
	syscall.ForkLock.RLock() // a program that starts meanwhile would hold it open for writing: ETXTBSY
	defer syscall.ForkLock.RUnlock()
	testdir.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)))
}

func (w *world) caller() Caller {
	return Caller{
		Home: w.home, Path: []string{filepath.Join(w.home, "bin"), "/usr/bin", "/bin"}, Trust: w.trust,
		Getenv: func(name string) (string, bool) { value, ok := w.env[name]; return value, ok },
		Get: func(_ context.Context, url string) ([]byte, error) {
			if page, ok := w.pages[url]; ok {
				return []byte(page), nil
			}
			return nil, errors.New("it answers 404")
		},
	}
}

// cargoSays is what cargo says of an index that it can't reach.
const cargoSays = "echo \"error: download of config.json failed\n\nCaused by:\n  failed to download from \\`$INDEX/config.json\\`\" >&2; exit 101"

func TestResolve(t *testing.T) {
	for _, test := range []struct {
		name, set       string
		programs, files map[string]string
		env, pages      map[string]string
		hosts           string
		inside          map[string]string // files
		variables       map[string]string
	}{
		{
			name: "npm, with a scope and a password", set: "npm",
			programs: map[string]string{"npm": `test "$PWD" = "$HOME" && echo '{"registry":"https://me:pw@npm.example/","@team:registry":"https://team.example:8443/npm/","@x:other":"https://no.example"}'`},
			hosts:    "npm.example:443 team.example:8443",
			inside:   map[string]string{"/etc/npmrc": "registry=https://npm.example/\n@team:registry=https://team.example:8443/npm/\n"},
			variables: map[string]string{"npm_config_globalconfig": "/etc/npmrc", "YARN_REGISTRY": "https://npm.example/",
				"YARN_NPM_REGISTRY_SERVER": "https://npm.example/"},
		}, {
			name: "npm on the host itself", set: "npm",
			programs: map[string]string{"npm": `echo '{"registry":"http://localhost:4873/"}'`},
			hosts:    "host.forage.internal:4873",
			inside:   map[string]string{"/etc/npmrc": "registry=http://host.forage.internal:4873/\n"},
		}, {
			name: "pip's default, which has its files elsewhere", set: "pypi",
			programs: map[string]string{"pip": `test "$1" = config || echo "  --index-url <url>  Base URL (default https://index.example/simple). This"`},
			pages:    map[string]string{"https://index.example/simple/pip/": `<a class="x" href="https://files.example/a/pip-1.whl#sha256=0">pip-1</a><a href="../../b/pip-2.whl">`},
			hosts:    "index.example:443 files.example",
		}, {
			name: "an index that names what it may not", set: "pypi",
			programs: map[string]string{"pip": `test "$1" = config || echo "(default https://index.example/simple)"`},
			pages: map[string]string{"https://index.example/simple/pip/": `<a href="http://127.0.0.1:2375/x"><a href="https://localhost/x"><a href="https://host.forage.internal/x">` +
				`<a href="https://10.0.0.1/x"><a href="https://169.254.169.254/x"><a href="https://*.com/x"><a href="https://*/x"><a href="https://intranet/x">` +
				`<a href="https://lan.example:8443/x"><a href="http://lan.example/x"><a href="https://@npm/x"><a href="https://index.example:22/x"><a href="https://2130706433/x">`},
			hosts: "index.example:443",
		}, {
			name: "cargo's index that names what it may not", set: "cargo",
			programs: map[string]string{"cargo": "INDEX=https://index.example; " + cargoSays},
			pages:    map[string]string{"https://index.example/config.json": `{"dl":"http://localhost:2375/{crate}"}`},
			hosts:    "index.example:443",
		}, {
			name: "pip with a mirror", set: "pypi",
			programs: map[string]string{"pip": `test "$1" = config && printf '%s\n' "global.index-url='https://me:pw@mirror.corp/simple'" "install.extra-index-url='\\nhttps://a.corp/simple\\nhttp://b.corp/simple'" ":env:.trusted-host='b.corp'"`},
			hosts:    "mirror.corp:443 a.corp:443 b.corp:80",
			inside: map[string]string{
				"/etc/pip.conf":   "[global]\nindex-url = https://mirror.corp/simple\nextra-index-url = https://a.corp/simple http://b.corp/simple\ntrusted-host = b.corp\n",
				"/etc/uv/uv.toml": "index-url = \"https://mirror.corp/simple\"\nextra-index-url = [\"https://a.corp/simple\", \"http://b.corp/simple\"]\n",
			},
		}, {
			name: "uv alone", set: "pypi",
			files: map[string]string{".config/uv/uv.toml": "[[index]]\nurl = \"https://uv.corp/simple\"\ndefault = true\n"},
			env:   map[string]string{"UV_INDEX": "team=https://team.corp/simple"},
			hosts: "uv.corp:443 team.corp:443",
		}, {
			name: "go", set: "go",
			programs:  map[string]string{"go": `echo '{"GOPROXY":"https://u:p@go.corp|https://proxy.example,direct","GOSUMDB":"sum.example","GONOSUMDB":"*.corp","GOFLAGS":""}'`},
			hosts:     "go.corp:443 proxy.example:443 sum.example:443",
			variables: map[string]string{"GOPROXY": "https://go.corp|https://proxy.example,direct", "GOSUMDB": "sum.example", "GONOSUMDB": "*.corp"},
		}, {
			name: "cargo, whose index says where packages are", set: "cargo",
			programs: map[string]string{"cargo": "INDEX=https://index.example; " + cargoSays},
			pages:    map[string]string{"https://index.example/config.json": `{"dl":"https://static.example/crates/{crate}/download"}`},
			hosts:    "index.example:443 static.example",
		}, {
			name: "cargo with a mirror", set: "cargo",
			programs: map[string]string{"cargo": "test -s $CARGO_HOME/config.toml || exit 1; INDEX=https://mirror.corp/index; " + cargoSays},
			files: map[string]string{".cargo/config.toml": "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://me:pw@mirror.corp/index/\"\n" +
				"[source.old]\ndirectory = \"/x\"\n[registries.team]\nindex = \"sparse+https://team.corp/\"\ntoken = \"secret\"\n"},
			hosts: "mirror.corp:443 team.corp:443",
			inside: map[string]string{"/.cargo/config.toml": "[source]\n[source.crates-io]\nreplace-with = 'mirror'\n\n[source.mirror]\nregistry = 'sparse+https://mirror.corp/index/'\n\n" +
				"[registries]\n[registries.team]\nindex = 'sparse+https://team.corp/'\n"},
		}, {
			name: "maven with a mirror of everything", set: "maven",
			files: map[string]string{".m2/settings.xml": `<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><servers><server><password>pw</password></server></servers>` +
				`<mirrors><mirror><id>m</id><url>https://maven.corp/all</url><mirrorOf>*</mirrorOf></mirror></mirrors></settings>`},
			hosts:  "maven.corp:443",
			inside: map[string]string{"/home/agent/.m2/settings.xml": "<settings><mirrors><mirror><id>m</id><url>https://maven.corp/all</url><mirrorOf>*</mirrorOf></mirror></mirrors></settings>\n"},
		}, {
			name: "gem", set: "rubygems",
			programs: map[string]string{"gem": `printf '*** CURRENT SOURCES ***\n\nhttps://gems.example/\n'`},
			hosts:    "gems.example:443 index.gems.example:443",
			inside:   map[string]string{"/etc/gemrc": ":sources:\n- https://gems.example/\n"},
		}, {
			name: "apt", set: "debian",
			programs: map[string]string{"apt-get": `printf 'http://deb.example/debian\nhttp://deb.example/debian\nfile:/srv\n'`},
			hosts:    "deb.example:80",
		}, {
			name: "an older nix", set: "nix",
			programs:  map[string]string{"nix": `test "$3" = show-config && echo '{"substituters":{"value":["https://cache.example/"]},"trusted-public-keys":{"value":"k1 k2"}}'`},
			hosts:     "cache.example:443",
			variables: map[string]string{"NIX_CONFIG": "substituters = https://cache.example/\ntrusted-public-keys = k1 k2"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.programs, test.files)
			if test.env != nil {
				w.env = test.env
			}
			w.pages = test.pages
			caller := w.caller()
			if test.programs["pip"] == "" { // this machine's is not asked
				caller.Path = caller.Path[:1]
			}
			set, err := Resolve(t.Context(), test.set, caller)
			if err != nil {
				t.Fatal(err, forage.Hint(err))
			}
			if got := strings.Join(set.Hosts, " "); got != test.hosts {
				t.Errorf("hosts: %s, want %s", got, test.hosts)
			}
			files := map[string]string{}
			for _, file := range set.Files {
				files[file.Path] = string(file.Content)
			}
			if test.inside != nil {
				testdir.Same(t, "files inside", test.inside, files)
			}
			if test.variables != nil {
				testdir.Same(t, "variables inside", test.variables, set.Env)
			}
			for _, secret := range []string{"pw", "me:", "secret"} {
				for _, text := range files {
					if strings.Contains(text, secret) {
						t.Errorf("%q is inside: %s", secret, text)
					}
				}
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	npm := map[string]string{"npm": `echo '{"registry":"https://npm.example/"}'`}
	for _, test := range []struct {
		name, set string
		programs  map[string]string
		trust     func(w *world) func(string) bool
		want      string
		hint      string
	}{
		{name: "no tool", set: "npm", want: "npm is not on your PATH", hint: `below [hostSets]: npm = ["HOST"]`},
		{name: "no answer", set: "npm", programs: map[string]string{"npm": "exit 1"}, want: "running npm", hint: "[hostSets]"},
		{name: "nonsense", set: "npm", programs: map[string]string{"npm": "echo hello"}, want: "does not say what is configured", hint: "[hostSets]"},
		{name: "forges alone", set: "go", programs: map[string]string{"go": `echo '{"GOPROXY":"direct"}'`}, want: "no server", hint: "[hostSets]"},
		{name: "unknown", set: "nmp", want: "there is no set of hosts @nmp", hint: "@npm"},
		{name: "a tool that sandboxes can change", set: "npm", programs: npm, want: "npm is not on your PATH",
			trust: func(w *world) func(string) bool {
				return func(path string) bool { return !strings.HasPrefix(path, filepath.Join(w.home, "bin")) }
			}},
		{name: "a home that sandboxes can change", set: "npm", programs: npm, want: "home folder",
			trust: func(w *world) func(string) bool { return func(path string) bool { return path != w.home } }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.programs, nil)
			if test.trust != nil {
				w.trust = test.trust(w)
			}
			caller := w.caller()
			caller.Path = caller.Path[:1]
			_, err := Resolve(t.Context(), test.set, caller)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(forage.Hint(err), test.hint) {
				t.Errorf("got %v, hint %q", err, forage.Hint(err))
			}
		})
	}
}

// TestVariablesDoNotLead: what a variable of the caller's names in a folder that sandboxes can
// change, or relative to the current one, is not read, and no tool is told of it.
func TestVariablesDoNotLead(t *testing.T) {
	w := newWorld(t, map[string]string{
		"npm":   `test -z "$NPM_CONFIG_USERCONFIG" && echo '{"registry":"https://npm.example/"}'`,
		"cargo": `test -z "$RUSTUP_HOME" || exit; INDEX=https://index.example; ` + cargoSays,
	}, map[string]string{"project/config.toml": "[registries.evil]\nindex = \"sparse+https://evil.example/\"\n", "project/npmrc": ""})
	project := filepath.Join(w.home, "project")
	w.trust = func(path string) bool { return !strings.HasPrefix(path, project) }
	t.Chdir(w.home)
	for _, cargoHome := range []string{project, "project"} {
		w.env = map[string]string{"CARGO_HOME": cargoHome, "RUSTUP_HOME": project, "NPM_CONFIG_USERCONFIG": filepath.Join(project, "npmrc")}
		for set, want := range map[string]string{"npm": "npm.example:443", "cargo": "index.example:443"} {
			if got, err := Resolve(t.Context(), set, w.caller()); err != nil || strings.Join(got.Hosts, " ") != want {
				t.Errorf("CARGO_HOME=%s: %s: got %v, %v", cargoHome, set, got.Hosts, err)
			}
		}
	}
}

func TestSetsOfOurs(t *testing.T) {
	set, err := Resolve(t.Context(), "github", Caller{})
	if err != nil || len(set.Hosts) == 0 || set.Hosts[0] != "github.com" {
		t.Errorf("got %v, %v", set, err)
	}
}
