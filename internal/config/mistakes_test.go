package config_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/config"
)

// TestMistakes: each is said with its line and column, and what was expected.
func TestMistakes(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		// Keys.
		{"near key", "portRanges = 1", `:1:1: portRanges: unknown key; did you mean "portRange"?`},
		{"case", "[templates.x]\nAllowedHosts = []", `:2:1: templates.x.AllowedHosts: unknown key; did you mean "allowedHosts"?`},
		{"near table", "[template.x]", `:1:2: template: unknown key; did you mean "templates"?`},
		{"inline", "portRange = { from = 1, too = 2 }", `:1:25: portRange.too: unknown key; did you mean "to"?`},
		{"in a list of tables", "[[templates.x.rules]]\nhost = 'a.b'\n[[templates.x.rules]]\nhosts = 'a.b'", `:4:1: templates.x.rules[1].hosts: unknown key; did you mean "host"?`},
		{"odd key", `"a\u001bb" = 1`, `:1:1: "a\x1bb": unknown key`},
		// TOML itself.
		{"syntax", "user = 'me'\nuser2 = = 3", `:2:9: not valid TOML`},
		{"twice", "user = 'a'\nuser = 'b'", `:2:1: not valid TOML`},
		// Types.
		{"number for string", "user = 3", `:1:1: user: expected a string, found a whole number`},
		{"string for number", "portRange = { from = '1', to = 2 }", `:1:15: portRange.from: expected a whole number, found a string`},
		{"string for list", "[templates.x]\nallowedHosts = 'a.b'", `:2:1: templates.x.allowedHosts: expected a list, found a string`},
		{"string for table", "network = 'full'", `:1:1: network: expected a table, found a string`},
		// Values.
		{"port 0", "portRange = { from = 0, to = 9 }", `:1:15: portRange.from: 0: expected a port, 1 to 65535`},
		{"backwards", "portRange = { from = 9, to = 1 }", `:1:1: portRange: from (9) is greater than to (1)`},
		{"listen", "sshListen = 'localhost'", `:1:1: sshListen: "localhost": expected an address such as 127.0.0.1`},
		{"key", "authorizedKeys = ['ssh-rsa garbage']", `:1:19: authorizedKeys[0]: "ssh-rsa garbage": expected an OpenSSH public key`},
		{"two keys in one", `authorizedKeys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1vHpUDmbBzUQHk0Z1m0nJ3nqUOqzfwZbhl3pYS0mDS\nssh-rsa AAAA"]`, `expected an OpenSSH public key`},
		{"user", "user = 'a b'", `user: "a b" is not a user's name`},
		{"too large a number", "[templates.x.traffic]\nmaxCost = 1e999", `:2:11: not valid TOML: unable to parse float`},
		{"default template", "defaultTemplate = 'cluade'", `:1:1: defaultTemplate: no template is called "cluade"; did you mean "claude"?`},
		{"template name", "[templates.My_Template]", `:1:12: templates.My_Template: expected a name`},
		{"runtime", "[templates.x]\nruntime = 'naitve'", `:2:1: templates.x.runtime: "naitve" is not a runtime; did you mean "native"?`},
		{"rootfs", "[templates.x]\nrootfs = 'debian:12'", `:2:1: templates.x.rootfs: "debian:12": expected host, image:REFERENCE, dir:PATH or oci:PATH`},
		{"other home", "[templates.x]\nrootfs = 'dir:~other/x'", `another user's home folder has to be written out`},
		{"mode", "[templates.x]\nnetwork = 'open'", `:2:1: templates.x.network: "open": expected full, restricted or none`},
		{"URL", "[templates.x]\nallowedHosts = ['ok.example', 'https://x.example']", `:2:31: templates.x.allowedHosts[1]: `},
		{"private without port", "[templates.x]\nallowedHosts = ['10.0.0.1']", `needs its port`},
		{"star", "[templates.x]\nallowedHosts = ['*']", `use the mode "full"`},
		{"size", "[templates.x]\nresourceLimits = { memoryMax = 'lots' }", `:2:20: templates.x.resourceLimits.memoryMax: "lots": expected a size such as "512M" or "4G"`},
		{"home", "[templates.x]\nhome = 'gone'", `expected kept or ephemeral`},
		{"volume name", "[templates.x.volumes]\nBig = '/data'", `expected a name`},
		{"volume place", "[templates.x.volumes]\nx = '/usr/x'", `/usr is Forage's own`},
		{"size too big", "[templates.x.resourceLimits]\ndiskMax = '9000000000T'", `expected a size`},
		{"percent", "[templates.x.resourceLimits]\ncpuQuota = '2'", `:2:1: templates.x.resourceLimits.cpuQuota: "2": expected percent of one processor, such as "200%"`},
		{"tasks", "[templates.x.resourceLimits]\ntasksMax = 0", `tasksMax: 0: expected at least 1`},
		{"duration", "[templates.x.resourceLimits]\nwallClock = '2'", `expected a time such as "90m" or "2h"`},
		{"variable", "[templates.x.env]\n'A B' = 'x'", `:2:1: templates.x.env."A B": "A B" is not a variable's name`},
		{"variable zero byte", "[templates.x.env]\nA = \"x\\u0000\"", `can't hold a zero byte`},
		{"agent", "[templates.x.agents.y]\nauthEnvVar = 'K'", `templates.x.agents.y: this agent has no command`},
		{"agent command", "[templates.x.agents.y]\ncommand = []", `expected a program and its arguments`},
		{"resolve from", "[network.resolve]\n'a.b' = '1.2.3.4:5'", `"a.b": expected name:port`},
		{"resolve to", "[network.resolve]\n'a.b:1' = 'c.d:2'", `"c.d:2": expected address:port`},
		{"proxy", "[network]\nupstreamProxy = 'socks5://x:1'", `expected http://host:port`},
		{"CA", "[network]\nupstreamCA = ''", `expected a path`},
		// Secrets.
		{"secret sources", "[secrets.x]\nfile = '/x'\nenv = 'X'", `:1:10: secrets.x: expected one of file, env, command, keyring and login, found 2`},
		{"secret name", "[secrets.A]\nenv = 'X'", `:1:10: secrets.A: expected a name of 1 to 63`},
		{"secret host", "[secrets.x]\nenv = 'X'\nheader = 'h'\nhosts = ['/']", `:4:10: secrets.x.hosts[0]: `},
		{"secret for a set", "[secrets.x]\nenv = 'X'\nheader = 'h'\nhosts = ['@team']", `:4:10: secrets.x.hosts[0]: "@team": a secret goes to hosts, not to a set: name those that take it`},
		{"secret for a known set", "[secrets.x]\nenv = 'X'\nheader = 'h'\nhosts = ['@npm']", `or leave hosts out and write preset = "npm"`},
		{"secret without a way", "[secrets.x]\nenv = 'X'\nhosts = ['a.b']", `:3:1: secrets.x.hosts: expected inject, header, query or user as well`},
		{"variable", "[secrets.x]\nenv = 'A B'", `:2:1: secrets.x.env: "A B" is not a variable's name`},
		{"keyring", "[secrets.x]\nkeyring = 'me'", `:2:1: secrets.x.keyring: "me": expected service/user`},
		{"login", "[secrets.x]\nlogin = 'claud'", `:2:1: secrets.x.login: "claud": expected claude or chatgpt`},
		{"login file", "[secrets.x]\nenv = 'X'\nloginFile = '/x'", `:3:1: secrets.x.loginFile: expected login as well`},
		{"preset", "[secrets.x]\nenv = 'X'\npreset = 'x'", `:3:1: secrets.x.preset: "x" is not a preset`},
		{"inject", "[secrets.x]\nenv = 'X'\ninject = 'cookie'", `:3:1: secrets.x.inject: "cookie": expected header, bearer`},
		{"inject without header", "[secrets.x]\nenv = 'X'\ninject = 'header'", `:3:1: secrets.x.inject: expected header as well`},
		{"header of bearer", "[secrets.x]\nenv = 'X'\ninject = 'bearer'\nheader = 'a'", `:4:1: secrets.x.header: header is for inject = "header"`},
		{"header name", "[secrets.x]\nenv = 'X'\nheader = 'a b'", `:3:1: secrets.x.header: "a b": expected the name of a request header`},
		{"header of framing", "[secrets.x]\nenv = 'X'\nheader = 'Transfer-Encoding'", `can't carry a secret`},
		{"format", "[secrets.x]\nenv = 'X'\nheader = 'a'\nformat = 'Bearer'", `:4:1: secrets.x.format: "Bearer": expected text with {} once`},
		{"format with a line", "[secrets.x]\nenv = 'X'\nheader = 'a'\nformat = \"{}\\nb: c\"", `expected text with {} once`},
		{"user", "[secrets.x]\nenv = 'X'\nuser = 'a:b'", `:3:1: secrets.x.user: "a:b": expected a user's name, without a colon`},
		{"query", "[secrets.x]\nenv = 'X'\nquery = ''", `expected the name of a parameter`},
		{"agent's secret", "[templates.x.agents.y]\ncommand = ['y']\nsecretName = 'zzz'", `:3:1: templates.x.agents.y.secretName: no secret is called "zzz"`},
		{"template's secret", "[secrets.mine]\nenv = 'X'\npreset = 'npm'\n[templates.x]\nsecrets = ['mine', 'mime']", `:5:20: templates.x.secrets[1]: no secret is called "mime"; did you mean "mine"?`},
		{"secret without hosts", "[secrets.mine]\nenv = 'X'\n[templates.x]\nsecrets = ['mine']", `:4:12: templates.x.secrets[0]: the secret mine does not say where it may go: add hosts or preset to [secrets.mine]`},
		{"two secrets for a host", "[secrets.a]\nenv = 'X'\nhosts = ['A.test:443']\ninject = 'bearer'\n[secrets.b]\nenv = 'X'\nhosts = ['b.test', 'a.test']\ninject = 'bearer'\n" +
			"[templates.x]\nsecrets = ['a', 'b']", `:10:17: templates.x.secrets[1]: a.test is a host of the secret b and of a too`},
		{"a secret for an agent's host", "[secrets.anthropic]\nenv = 'X'\n[secrets.b]\nenv = 'Y'\npreset = 'anthropic'\n[templates.claude]\nsecrets = ['b']",
			`:7:12: templates.claude.secrets[0]: api.anthropic.com is a host of the secret b and of anthropic too`},
		{"secret mode", "[templates.x]\nsecretMode = 'env'", `:2:1: templates.x.secretMode: "env": expected inject or wrapper`},
		// Rules.
		{"rule without a host", "[[templates.x.rules]]\nmethods = ['GET']", `:1:15: templates.x.rules[0]: a rule needs a host`},
		{"rule set", "[[templates.x.rules]]\nhost = '@A b'", `:2:1: templates.x.rules[0].host: "@A b": expected the name of a set of hosts, such as @github`},
		{"rule path", "[[templates.x.rules]]\nhost = 'a.b'\npaths = ['/ok', 'x']", `:3:17: templates.x.rules[0].paths[1]: "x": expected a path that begins with /`},
		{"rule paths", "[[templates.x.rules]]\nhost = 'a.b'\npaths = []", `:3:1: templates.x.rules[0].paths: expected at least one`},
		{"rule key", "[[templates.x.rules]]\nhost = 'a.b'\npath = ['/']", `:3:1: templates.x.rules[0].path: unknown key; did you mean "paths"?`},
		{"git without repos", "[[templates.x.rules]]\nhost = 'a.b'\ngit = {}", `:3:1: templates.x.rules[0].git: expected repos`},
		// Traffic.
		{"requests", "[templates.x.traffic]\nrequestsPerMinute = 0", `:2:1: templates.x.traffic.requestsPerMinute: 0: expected at least 1`},
		{"cost", "[templates.x.traffic]\nmaxCost = '$5'", `:2:1: templates.x.traffic.maxCost: expected a number, found a string`},
		{"cost zero", "[templates.x.traffic]\nmaxCost = 0", `:2:1: templates.x.traffic.maxCost: 0: expected US dollars`},
		{"cost infinite", "[templates.x.traffic]\nmaxCost = inf", `expected US dollars`},
		// Forbidding what could never be enforced.
		{"forbid flag", "[forbid]\nflags = ['mounts']", `:2:10: forbid.flags[0]: "mounts" is not a flag that can be forbidden; did you mean "mount"?`},
		{"forbid relative", "[forbid]\nmounts = ['ssh/**']", `expected a pattern that begins with /, ~/ or **/`},
		{"forbid pattern", "[forbid]\nmounts = ['/a/[']", `is not a pattern of paths`},
		{"forbid anywhere", "[forbid]\nmounts = ['/**/a/**/a/**/a/**/a']", `** more than 3 times`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, "config.toml", test.text)
			checkMistake(t, err, "config.toml", test.want)
		})
	}
}

func TestMistakesInJSON(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", `:1:1: not valid JSON`},
		{"null", `{"user": null}`, `:1:10: not valid JSON: null says nothing: leave the key out`},
		{"value", "{\"templates\": {\"x\": {\n\"resourceLimits\": {\"memoryMax\": \"lots\"}}}}", `:2:20: templates.x.resourceLimits.memoryMax: "lots": expected a size`},
		{"twice", `{"user": "a", "user": "b"}`, `the key "user" is given twice`},
		{"syntax", "{\n\"user\": !}", `:2:9: not valid JSON`},
		{"more", "{} {}", `more follows`},
		{"list", "[]", `:1:1: expected an object, found a list`},
		{"open", `{"user": "a"`, `not valid JSON: unexpected EOF`},
		{"deep", strings.Repeat(`{"a":`, 100), `nested too deeply`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, "config.json", test.text)
			checkMistake(t, err, "config.json", test.want)
		})
	}
}

func checkMistake(t *testing.T, err error, file, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	var all *config.Error
	if !errors.As(err, &all) || !errors.Is(err, forage.ErrUsage) || forage.Hint(err) == "" {
		t.Errorf("%#v is not a usage error with a hint", err)
	}
	if !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("%q passes on what was in the file", err)
	}
}

// TestAllMistakesAreFound: in the order of the file, whatever the order of maps.
func TestAllMistakesAreFound(t *testing.T) {
	_, err := load(t, "config.toml", "user = 1\nusr = 1\n[templates.b]\nx = 1\n[templates.a]\ny = 1\n")
	var all *config.Error
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	var lines []int
	for _, problem := range all.Problems {
		if filepath.Base(problem.File) != "config.toml" {
			t.Errorf("file %q", problem.File)
		}
		lines = append(lines, problem.Line)
	}
	if len(lines) != 4 || lines[0] != 1 || lines[1] != 2 || lines[2] != 4 || lines[3] != 6 {
		t.Errorf("lines %v", lines)
	}
	if !strings.HasSuffix(err.Error(), "(and 3 more)") {
		t.Errorf("%v", err)
	}
}
