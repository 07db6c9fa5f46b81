package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/config"
	"forage/internal/testdir"
)

const (
	testUID  = 1000
	testHome = "/home/user"
)

// write makes a file below dir and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testdir.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testdir.Must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// load reads text as the only file, called config.toml or config.json.
func load(t *testing.T, name, text string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	return config.Load(config.Env{
		UID: testUID, Home: testHome, SystemDir: filepath.Join(dir, "system"),
		File: write(t, dir, name, text),
	})
}

func mustLoad(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := load(t, "config.toml", text)
	testdir.Must(t, err)
	return c
}

func TestValues(t *testing.T) {
	c := mustLoad(t, `
user = "myuser"
authorizedKeys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1vHpUDmbBzUQHk0Z1m0nJ3nqUOqzfwZbhl3pYS0mDS me"]
portRange = { from = 3000, to = 3001 }
sshListen = "::1"
defaultTemplate = "mine"
containerPrefix = "box-"
[network]
resolve = { "Git.Internal.:443" = "10.0.0.7:8443" }
upstreamCA = "~/ca.pem"
upstreamProxy = "http://proxy.corp:3128"
[templates.mine]
description = "My own"
runtime = "native"
rootfs = "dir:roots/debian"
network = "full"
allowedHosts = ["*.example.com:443", "[2001:db8::1]:80"]
readOnlyWorkspace = true
nestedNamespaces = true
resourceLimits = { cpuQuota = "150%", memoryMax = "512M", tasksMax = 512, diskMax = "10G", wallClock = "1h30m" }
env = { EDITOR = "vi" }
initCommands = ["true"]
extraPackages = ["jq"]
[templates.mine.agents.mine]
command = ["agent", "--yes"]
authEnvVar = "KEY"
`)
	want := forage.Template{
		Name: "mine", Description: "My own", Runtime: "native", ExtraPackages: []string{"jq"},
		Rootfs:            forage.Rootfs{Kind: forage.RootfsDir, Ref: filepath.Join(filepath.Dir(c.Files[0]), "roots/debian")},
		Network:           forage.Network{Mode: forage.NetworkFull, Allow: []string{"*.example.com:443", "[2001:db8::1]:80"}},
		ReadOnlyWorkspace: true, Caches: forage.CacheNames(),
		Limits: forage.Limits{
			CPUQuota: 150, MemoryMax: 512 << 20, TasksMax: 512, DiskMax: 10 << 30, WallClock: 90 * time.Minute,
		},
		Security: forage.Security{NestedNamespaces: true},
		Init:     []string{"true"},
		Env:      map[string]string{"EDITOR": "vi"},
		Agents:   map[string]forage.Agent{"mine": {Command: []string{"agent", "--yes"}, AuthEnvVar: "KEY", Permissions: &forage.Permissions{SkipAll: true}}},
	}
	testdir.Same(t, "template", want, c.Templates["mine"])
	facts := forage.NetworkFacts{
		Resolve:    map[string]string{"git.internal:443": "10.0.0.7:8443"},
		UpstreamCA: "/home/user/ca.pem", UpstreamProxy: "http://proxy.corp:3128",
	}
	testdir.Same(t, "network", facts, c.Network)
	got := []any{c.User, len(c.AuthorizedKeys), c.PortRange, c.SSHListen, c.DefaultTemplate, c.ContainerPrefix}
	testdir.Same(t, "general", []any{"myuser", 1, config.PortRange{From: 3000, To: 3001}, "::1", "mine", "box-"}, got)
}

// TestANewTemplateDenies: what a template doesn't say is the tightest.
func TestANewTemplateDenies(t *testing.T) {
	got := mustLoad(t, "[templates.new]\n").Templates["new"]
	want := forage.Template{
		Name: "new", Rootfs: forage.Rootfs{Kind: forage.RootfsHost}, Network: forage.Network{Mode: forage.NetworkRestricted}, Caches: forage.CacheNames(),
	}
	testdir.Same(t, "", want, got)
}

func TestUserOverSystem(t *testing.T) {
	dir := t.TempDir()
	system := write(t, dir, "etc/config.json", `{
		"portRange": {"from": 4000, "to": 4099},
		"sshListen": "127.0.0.2",
		"forbid": {"networks": ["full"]},
		"templates": {"claude": {"env": {"A": "system", "B": "system"}, "resourceLimits": {"tasksMax": 9}}}
	}`)
	user := write(t, dir, "xdg/firefly-forage/config.toml", `
portRange.to = 4005
[forbid]
networks = ["none"]
[templates.claude]
allowedHosts = ["example.com"]
env = { B = "user" }
agents.claude.command = ["claude", "--verbose"]
`)
	env := config.Env{
		UID: testUID, Home: testHome, SystemDir: filepath.Join(dir, "etc"),
		Getenv: func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": filepath.Join(dir, "xdg")}[name]
		},
	}
	c, err := config.Load(env)
	testdir.Must(t, err)
	claude := c.Templates["claude"]
	got := []any{
		c.Files, c.PortRange, c.SSHListen, claude.Env["A"], claude.Env["B"], claude.Limits.TasksMax,
		claude.Network.Allow, claude.Agents["claude"], claude.Description != "",
	}
	want := []any{
		[]string{system, user}, config.PortRange{From: 4000, To: 4005}, "127.0.0.2", "system", "user", int64(9),
		[]string{"example.com"}, forage.Agent{Command: []string{"claude", "--verbose"}, AuthEnvVar: "ANTHROPIC_API_KEY", Secret: "anthropic",
			Permissions: &forage.Permissions{SkipAll: true}}, true,
	}
	testdir.Same(t, "", want, got)
	for _, mode := range []forage.NetworkMode{forage.NetworkFull, forage.NetworkNone} {
		if err := c.Forbid.CheckNetwork(mode); !errors.Is(err, forage.ErrDenied) {
			t.Errorf("%s is not forbidden any more: %v", mode, err)
		}
	}
	if err := c.Forbid.CheckNetwork(forage.NetworkFull); !strings.Contains(err.Error(), system+":4") {
		t.Errorf("who forbids is not named: %v", err)
	}

	// --config is read in the place of the user's file, not of the system's.
	env.File = write(t, dir, "named.toml", "sshListen = '127.0.0.3'\n")
	if c, err = config.Load(env); err != nil {
		t.Fatal(err)
	}
	testdir.Same(t, "with --config", []string{system, env.File}, c.Files)
	if c.Forbid.CheckNetwork(forage.NetworkFull) == nil {
		t.Error("--config undoes what the system forbids")
	}
	// Root reads the system's file alone, or the named one in its place.
	env.UID = 0
	if c, err = config.Load(env); err != nil || !cmp.Equal(c.Files, []string{env.File}) {
		t.Errorf("root with --config: %v, %v", c, err)
	}
	env.File = ""
	if c, err = config.Load(env); err != nil || !cmp.Equal(c.Files, []string{system}) {
		t.Errorf("root: %v, %v", c, err)
	}
}

func TestFilesThatAreNotRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "both/config.toml", "")
	write(t, dir, "both/config.json", "{}")
	world := write(t, dir, "world.toml", "")
	testdir.Must(t, os.Chmod(world, 0o666))
	for name, test := range map[string]struct {
		env  config.Env
		want string
	}{
		"both":    {config.Env{SystemDir: filepath.Join(dir, "both")}, "there are both"},
		"missing": {config.Env{File: filepath.Join(dir, "nosuch.toml")}, "nosuch.toml: no such file"},
		"folder":  {config.Env{File: dir}, "not a regular file"},
		"world":   {config.Env{File: world}, "chmod o-w"},
		"big":     {config.Env{File: write(t, dir, "big.toml", strings.Repeat("#\n", 1<<20))}, "larger than"},
		"no home": {config.Env{UID: testUID, SystemDir: dir}, "no home folder"},
	} {
		_, err := config.Load(test.env)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if name != "no home" && !errors.Is(err, forage.ErrUsage) {
			t.Errorf("%s: exit status %d", name, forage.ExitCode(err))
		}
	}
}

func TestUnsupportedKeysAreMarked(t *testing.T) {
	c := mustLoad(t, `
[secrets]
key = { env = "KEY", preset = "anthropic" }
[templates.fine]
skills = { jj = false, nix = true, custom = "Be brief." }
secrets = ["key"]
monitor = true
traffic.maxTokens = 1
agents.claude = { command = ["claude"], secretName = "key" }
rules = [{ host = "api.github.com" }]
[templates.later.agents.claude]
command = ["claude"]
package = "claude-code"
permissions = { skipAll = false, allow = ["Bash(make)"], deny = ["WebFetch"] }
`)
	asked := &forage.Permissions{Allow: []string{"Bash(make)"}, Deny: []string{"WebFetch"}}
	testdir.Same(t, "permissions", asked, c.Templates["later"].Agents["claude"].Permissions)
	file := c.Files[0]
	want := map[string][]config.KeyUse{"later": {
		{Key: "templates.later.agents.claude.package", File: file, Line: 13},
	}}
	testdir.Same(t, "", want, c.Unsupported)
	if got, want := c.Unsupported["later"][0].String(), "templates.later.agents.claude.package ("+file+":13)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShowMeansTheSame(t *testing.T) {
	c := mustLoad(t, `
user = "me"
portRange = { from = 1, to = 2 }
[network]
resolve = { "git.internal:443" = "10.0.0.7:8443" }
[forbid]
mounts = ["~/.ssh/**"]
flags = ["env"]
[secrets.key]
command = ["pass", "show", "x"]
hosts = ["api.example.com"]
inject = "header"
header = "X-Key"
format = "k {}"
[secrets.other]
login = "chatgpt"
loginFile = "/l"
preset = "openai"
[secrets.third]
env = "X"
hosts = ["h.example"]
query = "q"
[secrets.fourth]
keyring = "a/b"
hosts = ["h.example"]
user = "u"
[templates.mine]
monitor = true
secrets = ["key", "third"]
secretMode = "wrapper"
traffic = { requestsPerMinute = 1, bytesMax = "3G", connectionsMax = 2, maxTokens = 3, maxCost = 0.25 }
rootfs = "image:debian:12"
resourceLimits = { memoryMax = "1536M", wallClock = "90m", cpuQuota = "5%", diskMax = "1000", tasksMax = 3 }
env = { A = "a \"quoted\" value" }
[[templates.mine.rules]]
host = "example.com"
methods = ["GET", "HEAD"]
paths = ["/a/**"]
[[templates.mine.rules]]
host = "*.example.com:8443"
deny = true
[[templates.mine.rules]]
host = "git.example.com"
inspect = true
git = { repos = ["a/*"], push = ["agent/*", "refs/tags/*"] }
[templates.mine.agents.x]
command = ["x", "y z"]
secretName = "key"
authEnvVar = "K"
baseUrlEnvVar = "U"
permissions.skipAll = true
[templates.mine.workspace.mounts.main]
containerPath = "/workspace"
repo = "https://git.example.com/x.git"
mode = "clone"
branch = "next"
[templates.mine.workspace.mounts.lib]
containerPath = "/deps/lib:ro"
repo = "lib"
[templates.other]
rootfs = "dir:tree"
[templates.claude]
allowedHosts = []
agents.claude.hostConfigDir = "~/.claude"
`)
	for name, show := range map[string]func() ([]byte, error){"config.toml": c.TOML, "config.json": c.JSON} {
		text, err := show()
		testdir.Must(t, err)
		again, err := load(t, name, string(text))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if diff := cmp.Diff(c.Templates, again.Templates); diff != "" {
			t.Errorf("%s: templates (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.Secrets, again.Secrets); diff != "" {
			t.Errorf("%s: secrets (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(keys(c.Unsupported["mine"]), keys(again.Unsupported["mine"])); diff != "" {
			t.Errorf("%s: unsupported (-want +got):\n%s", name, diff)
		}
		if again.Forbid.CheckFlag("env") == nil || again.Forbid.CheckMount(testHome+"/.ssh") == nil {
			t.Errorf("%s: nothing is forbidden any more", name)
		}
		if c.User != again.User || c.PortRange != again.PortRange || !cmp.Equal(c.Network, again.Network) {
			t.Errorf("%s: %+v became %+v", name, c, again)
		}
	}
}

func keys(uses []config.KeyUse) (names []string) {
	for _, use := range uses {
		names = append(names, use.Key)
	}
	return names
}

func TestInit(t *testing.T) {
	dir := t.TempDir()
	env := config.Env{UID: testUID, Home: dir, SystemDir: filepath.Join(dir, "none")}
	path, err := config.Init(env)
	if err != nil || path != filepath.Join(dir, ".config/firefly-forage/config.toml") {
		t.Fatalf("%q, %v", path, err)
	}
	if c, err := config.Load(env); err != nil || len(c.Files) != 1 {
		t.Errorf("what init writes is not read: %v", err)
	}
	if _, err := config.Init(env); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("a second time: %v", err)
	}
	testdir.Must(t, os.Rename(path, filepath.Join(filepath.Dir(path), "config.json")))
	if _, err := config.Init(env); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("beside a JSON file: %v", err)
	}
}
