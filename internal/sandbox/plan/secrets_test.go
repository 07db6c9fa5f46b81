package plan

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/testdir"
)

// desk is a caller with a home, a project and a configuration.
type desk struct {
	t    *testing.T
	home string
	env  map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	home := t.TempDir()
	d := &desk{t: t, home: home, env: map[string]string{
		"PATH": "/usr/bin:/bin", "FORAGE_STATE_DIR": filepath.Join(home, "state"), "FORAGE_RUNTIME_DIR": filepath.Join(home, "run"),
	}}
	testdir.Must(t, os.Mkdir(filepath.Join(home, "project"), 0o755))
	return d
}

func (d *desk) write(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// ordinary is an id of a user who is not root: the test's own, unless that is root's.
func ordinary(id int) int {
	if id == 0 {
		return 1000
	}
	return id
}

// host has the configuration, and the desk's owner for caller.
func (d *desk) host(config string) *Host {
	d.t.Helper()
	h, err := Open(Caller{
		UID: ordinary(os.Getuid()), GID: ordinary(os.Getgid()), User: "me", Home: d.home, Dir: filepath.Join(d.home, "project"),
		Getenv: func(name string) (string, bool) { value, ok := d.env[name]; return value, ok },
	}, d.write("config.toml", config), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return h
}

// plan plans `run` with the configuration.
func (d *desk) plan(config string, opts Options) (forage.Plan, []string, error) {
	d.t.Helper()
	opts.Name, opts.Ephemeral = "box", true
	if opts.Command == nil {
		opts.Command = []string{"sh"}
	}
	made, err := d.host(config).Plan(d.t.Context(), opts)
	if made.Missing != nil {
		made.Notes = append(made.Notes, made.Missing.Error()+": "+forage.Hint(made.Missing))
	}
	return made.Plan, made.Notes, err
}

// found is what a plan says of secrets, for comparison.
type found struct {
	Secrets []string          // NAME from SOURCE to HOSTS as PLACE
	Env     map[string]string // that the secrets account for; placeholders by the name of their secret
	Path    string            // what is in front of the usual PATH
	Files   []string
	Trust   bool
	Notes   []string
}

// look is what a plan says of secrets.
func (d *desk) look(plan forage.Plan, notes []string) found {
	f := found{Env: map[string]string{}, Trust: plan.Spec.Env["SSL_CERT_FILE"] == rootfs.BundlePath, Notes: notes}
	shape := map[string]string{}
	for _, b := range plan.Secrets {
		source, _ := json.Marshal(b.Source)
		line := b.Secret + " from " + strings.ReplaceAll(string(source), d.home, "~")
		for _, use := range b.Uses {
			line += " to " + strings.Join(use.Hosts, ",") + " as " + string(use.Place)
		}
		f.Secrets = append(f.Secrets, line)
		shape[b.Placeholder] = "placeholder of " + b.Secret
	}
	usual := rootfs.Environment("box", plan.Spec.Identity, plan.Spec.Env["SHELL"], nil, plan.Spec.Env["SSL_CERT_FILE"])
	_, rest, _ := strings.Cut(usual["PATH"], ":") // what comes after the folder that opens pages
	f.Path = strings.TrimSuffix(strings.TrimPrefix(plan.Spec.Env["PATH"], strings.TrimSuffix(usual["PATH"], rest)), rest)
	for name, value := range plan.Spec.Env {
		if _, ok := usual[name]; !ok && !strings.HasPrefix(name, "CLAUDE_CODE_") && !strings.HasPrefix(name, "DISABLE_") {
			if of, ok := shape[value]; ok {
				value = of
			}
			f.Env[name] = value
		}
	}
	for _, file := range plan.Spec.Files {
		if strings.HasPrefix(file.Path, forage.RunPath) || file.Path == "/etc/gitconfig" {
			f.Files = append(f.Files, file.Path)
		}
	}
	return f
}

const ownService = `
[secrets.service]
env = "SERVICE_KEY"
hosts = ["api.test"]
header = "X-Key"
[templates.own]
[templates.own.agents.sh]
command = ["sh"]
secretName = "service"
authEnvVar = "SERVICE_KEY"
`

const noKey = "claude looks for its API key in ANTHROPIC_API_KEY, which it was not given: set it in your environment, or log in with claude on the host, and the sandbox can use it without seeing it"

func TestPlanSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		env    map[string]string
		files  map[string]string
		opts   Options
		want   found
	}{
		"none": {
			opts: Options{Template: "shell"},
		},
		"configured": {
			config: ownService, env: map[string]string{"SERVICE_KEY": "sk-value"}, opts: Options{Template: "own"},
			want: found{
				Secrets: []string{`service from {"env":"SERVICE_KEY"} to api.test as header`},
				Env:     map[string]string{"SERVICE_KEY": "placeholder of service"}, Trust: true,
			},
		},
		"configured, and not there": {
			config: ownService, opts: Options{Template: "own"},
			want: found{
				Secrets: []string{`service from {"env":"SERVICE_KEY"} to api.test as header`},
				Env:     map[string]string{"SERVICE_KEY": "placeholder of service"}, Trust: true,
				Notes: []string{"SERVICE_KEY is not set in your environment: requests that need the secret service will be answered with 502"},
			},
		},
		"a flag goes before": {
			config: ownService, env: map[string]string{"SERVICE_KEY": "sk-value"}, opts: Options{Template: "own", Env: []string{"SERVICE_KEY"}},
			want: found{Notes: []string{"--env sets SERVICE_KEY inside: the secret service is not used"}},
		},
		"the template goes before": {
			config: ownService + "[templates.own.env]\nSERVICE_KEY = \"mine\"\n", env: map[string]string{"SERVICE_KEY": "sk-value"},
			opts: Options{Template: "own"},
			want: found{
				Env:   map[string]string{"SERVICE_KEY": "mine"},
				Notes: []string{`template "own" sets SERVICE_KEY inside: the secret service is not used`},
			},
		},
		"automatic, of the environment": {
			env:  map[string]string{"ANTHROPIC_API_KEY": "sk-value"},
			opts: Options{Template: "claude"},
			want: found{
				Secrets: []string{`anthropic from {"env":"ANTHROPIC_API_KEY"} to api.anthropic.com as header`},
				Env:     map[string]string{"ANTHROPIC_API_KEY": "placeholder of anthropic"}, Trust: true,
			},
		},
		"automatic, a login": {
			files: map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"sk-value","refreshToken":"sk-value"}}`},
			opts:  Options{Template: "claude"},
			want: found{
				Secrets: []string{`anthropic from {"login":{"kind":"claude","file":"~/.claude/.credentials.json"}} to api.anthropic.com as bearer to console.anthropic.com,platform.claude.com as placeholder`},
				Trust:   true,
			},
		},
		"automatic, a file of the agent's without a login": {
			files: map[string]string{".claude/.credentials.json": `{"mcpOAuth":{}}`},
			opts:  Options{Template: "claude"},
			want:  found{Notes: []string{noKey}},
		},
		"automatic, neither": {
			opts: Options{Template: "claude"},
			want: found{Notes: []string{noKey}},
		},
		"configured goes before automatic": {
			config: "[secrets.anthropic]\nfile = \"key\"\n", env: map[string]string{"ANTHROPIC_API_KEY": "sk-value"}, files: map[string]string{"key": "x"},
			opts: Options{Template: "claude"},
			want: found{
				Secrets: []string{`anthropic from {"file":"~/key"} to api.anthropic.com as header`},
				Env:     map[string]string{"ANTHROPIC_API_KEY": "placeholder of anthropic"}, Trust: true,
			},
		},
		"github, for git too": {
			config: "[secrets.github]\ncommand = [\"echo\", \"x\"]\n[templates.own]\nsecrets = [\"github\"]\n",
			opts:   Options{Template: "own"},
			want: found{
				Secrets: []string{`github from {"command":["echo","x"]} to api.github.com,uploads.github.com,raw.githubusercontent.com,*.githubcopilot.com as bearer to github.com,gist.github.com,codeload.github.com as basic`},
				Env: map[string]string{"GH_TOKEN": "placeholder of github", "GITHUB_TOKEN": "placeholder of github",
					"GIT_TERMINAL_PROMPT": "0"},
				Files: []string{"/etc/gitconfig"}, Trust: true,
			},
		},
		"wrapper": {
			config: strings.Replace(ownService, "[templates.own]\n", "[templates.own]\nsecretMode = \"wrapper\"\n", 1),
			env:    map[string]string{"SERVICE_KEY": "sk-value"}, opts: Options{Template: "own"},
			want: found{
				Secrets: []string{`service from {"env":"SERVICE_KEY"} to api.test as header`},
				Path:    "/run/forage/wrappers:", Files: []string{"/run/forage/wrappers/sh"},
				Notes: []string{`secretMode is "wrapper": whatever runs inside can read service in /run/secrets, and send it to any host that the network lets through`},
			},
		},
		"an inspecting rule, without a secret": {
			config: "[templates.own]\n[[templates.own.rules]]\nhost = \"a.test\"\nmethods = [\"GET\"]\n",
			opts:   Options{Template: "own"}, want: found{Trust: true},
		},
		"a budget, without a secret": {
			config: "[templates.own]\ntraffic = { maxTokens = 5 }\n",
			opts:   Options{Template: "own"}, want: found{Trust: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			maps.Copy(d.env, test.env)
			for name, text := range test.files {
				d.write(name, text)
			}
			plan, notes, err := d.plan(test.config, test.opts)
			testdir.Must(t, err)
			if test.want.Env == nil {
				test.want.Env = map[string]string{}
			}
			testdir.Same(t, "", test.want, d.look(plan, notes))
			if text, err := json.Marshal(plan); err != nil || strings.Contains(string(text), "sk-value") {
				t.Errorf("the plan holds the value (%v): %s", err, text)
			}
			if again, _, err := d.plan(test.config, test.opts); err != nil || Same(plan, again) != nil {
				t.Errorf("planned again, it is another: %v", errors.Join(err, Same(plan, again)))
			}
		})
	}
}

func TestPlanSecretsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		opts   Options
		want   string
		kind   error
	}{
		"two for one host, one of them found by itself": {
			config: "[secrets.b]\nenv = \"B\"\npreset = \"anthropic\"\n[templates.own]\nsecrets = [\"b\"]\nagents.claude = { command = [\"claude\"], secretName = \"anthropic\" }\n",
			want:   "api.anthropic.com", kind: forage.ErrUsage,
		},
		"a login that is not there": {
			config: "[secrets.a]\nlogin = \"claude\"\n[templates.own]\nsecrets = [\"a\"]\n",
			want:   "there is no login at", kind: forage.ErrUsage,
		},
		"a login that is none": {
			config: "[secrets.a]\nlogin = \"claude\"\nloginFile = \"config.toml\"\n[templates.own]\nsecrets = [\"a\"]\n",
			want:   "config.toml", kind: forage.ErrUsage,
		},
		"monitor is forbidden": {
			config: "[forbid]\nnetworks = [\"monitor\"]\n[templates.own]\n",
			opts:   Options{Monitor: true}, want: "monitor is forbidden", kind: forage.ErrDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.Template = "own"
			d := newDesk(t)
			d.env["ANTHROPIC_API_KEY"] = "sk-value"
			_, _, err := d.plan(test.config, test.opts)
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
			if test.kind == forage.ErrUsage && forage.Hint(err) == "" {
				t.Errorf("%v: no hint", err)
			}
		})
	}
}

// TestSecretEnv: the supervisor gets the variables that the sources need, and no others.
func TestSecretEnv(t *testing.T) {
	d := newDesk(t)
	d.env["SERVICE_KEY"], d.env["UNRELATED"], d.env["GH_TOKEN"] = "sk-value", "x", "y"
	plan, _, err := d.plan(ownService, Options{Template: "own"})
	testdir.Must(t, err)
	h := &Host{Caller: Caller{Getenv: func(name string) (string, bool) { value, ok := d.env[name]; return value, ok }}}
	testdir.Same(t, "", map[string]string{"SERVICE_KEY": "sk-value"}, h.SecretEnv(plan))
	delete(d.env, "SERVICE_KEY")
	if notes := h.MissingSecrets(plan); len(notes) != 1 || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "SERVICE_KEY") }) {
		t.Errorf("%q", notes)
	}
}

// TestPlanClaudeSettings: with a key, Claude Code finds that it may use its placeholder, unless the
// user mounts settings there.
func TestPlanClaudeSettings(t *testing.T) {
	d := newDesk(t)
	d.env["ANTHROPIC_API_KEY"] = "sk-value"
	mine := d.write("mine.json", "{}")
	for mount, want := range map[string]int{"": 1, mine + ":" + forage.HomePath + "/.claude.json": 0} {
		opts := Options{Template: "claude"}
		if mount != "" {
			opts.Mounts = []string{mount}
		}
		plan, _, err := d.plan("", opts)
		testdir.Must(t, err)
		found := 0
		for _, file := range plan.Spec.Files {
			if file.Path != forage.HomePath+"/.claude.json" {
				continue
			}
			found++
			end := plan.Secrets[0].Placeholder[len(plan.Secrets[0].Placeholder)-20:]
			if !file.Owned || !strings.Contains(string(file.Content), `"`+end+`"`) {
				t.Errorf("%+v: %s", file, file.Content)
			}
		}
		if found != want {
			t.Errorf("mount %q: %d files, want %d", mount, found, want)
		}
	}
}
