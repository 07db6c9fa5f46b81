package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/config"
	"forage/internal/policy"
	"forage/internal/testdir"
)

func loadProject(t *testing.T, text string) (config.Project, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, config.ProjectFile, text)
	return config.LoadProject(dir)
}

func base() forage.Template {
	return forage.Template{
		Name:    "base",
		Network: forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"a.example", "*.b.example:443", "c.example:22", "10.0.0.1:80"}},
		Limits:  forage.Limits{TasksMax: 100, MemoryMax: 1 << 30, WallClock: time.Hour},
		Traffic: forage.Traffic{RequestsPerMinute: 60, BytesMax: 1 << 30, MaxCost: 5},
	}
}

func TestTighten(t *testing.T) {
	for _, test := range []struct {
		name, text string
		change     func(*forage.Template)
	}{
		{"nothing", "", func(*forage.Template) {}},
		{"network", "network = 'none'", func(t *forage.Template) { t.Network.Mode = forage.NetworkNone }},
		{"same network", "network = 'restricted'", func(*forage.Template) {}},
		{"fewer hosts", "allowedHosts = ['c.example:22', 'a.example']", func(t *forage.Template) {
			t.Network.Allow = []string{"c.example:22", "a.example"}
		}},
		{"narrower hosts", "allowedHosts = ['x.b.example', '*.y.b.example:443']", nil},
		{"below", "allowedHosts = ['*.y.b.example:443', '*.b.example:443', '10.0.0.1:80']", func(t *forage.Template) {
			t.Network.Allow = []string{"*.y.b.example:443", "*.b.example:443", "10.0.0.1:80"}
		}},
		{"no hosts", "allowedHosts = []", func(t *forage.Template) { t.Network.Allow = []string{} }},
		{"read only", "readOnlyWorkspace = true", func(t *forage.Template) { t.ReadOnlyWorkspace = true }},
		{"protected", "protect = true", func(*forage.Template) {}},
		{"not protected", "protect = false", func(*forage.Template) {}},
		{"not read only", "readOnlyWorkspace = false", func(*forage.Template) {}},
		{"limits", "resourceLimits = { tasksMax = 10, memoryMax = '1G', wallClock = '5m', diskMax = '1M', cpuQuota = '50%' }", func(t *forage.Template) {
			t.Limits = forage.Limits{TasksMax: 10, MemoryMax: 1 << 30, WallClock: 5 * time.Minute, DiskMax: 1 << 20, CPUQuota: 50}
		}},
		{"traffic", "traffic = { requestsPerMinute = 60, bytesMax = '1M', connectionsMax = 3, maxTokens = 9, maxCost = 4.5 }", func(t *forage.Template) {
			t.Traffic = forage.Traffic{RequestsPerMinute: 60, BytesMax: 1 << 20, ConnectionsMax: 3, MaxTokens: 9, MaxCost: 4.5}
		}},
		{"rules that deny", "rules = [{ host = 'a.example', methods = ['POST'], deny = true }, { host = '*.new.example', deny = true }]", func(t *forage.Template) {
			t.Network.Rules = []forage.Rule{{Host: "a.example", Methods: []string{"POST"}, Deny: true}, {Host: "*.new.example", Deny: true}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			project, err := loadProject(t, test.text)
			testdir.Must(t, err)
			got, err := config.Tighten(base(), project)
			if test.change == nil {
				testdir.Fails(t, "not denied", forage.ErrDenied, err)
				return
			}
			want := base()
			test.change(&want)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A project can turn protection on, and not off.
func TestTightenProtect(t *testing.T) {
	for text, want := range map[string]bool{"": true, "protect = false": true, "protect = true": false} {
		project, err := loadProject(t, text)
		testdir.Must(t, err)
		got, err := config.Tighten(forage.Template{Unprotected: true}, project)
		if err != nil || got.Unprotected != want {
			t.Errorf("%q: unprotected is %v, %v", text, got.Unprotected, err)
		}
	}
}

// A project can have the home vanish, and can't have it kept.
func TestTightenHome(t *testing.T) {
	for _, tc := range []struct {
		text           string
		template, want bool
	}{
		{"", false, false}, {"home = 'ephemeral'", false, true}, {"home = 'kept'", true, true},
	} {
		project, err := loadProject(t, tc.text)
		testdir.Must(t, err)
		got, err := config.Tighten(forage.Template{EphemeralHome: tc.template}, project)
		if err != nil || got.EphemeralHome != tc.want {
			t.Errorf("%q: ephemeral is %v, %v", tc.text, got.EphemeralHome, err)
		}
	}
	if _, err := loadProject(t, "home = 'none'"); err == nil {
		t.Error("home = 'none' was taken")
	}
}

func TestTightenFullNetwork(t *testing.T) {
	full := forage.Template{Name: "full", Network: forage.Network{Mode: forage.NetworkFull}}
	project, err := loadProject(t, "allowedHosts = ['a.example', '*.b.example:443']")
	testdir.Must(t, err)
	got, err := config.Tighten(full, project)
	want := forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"a.example", "*.b.example:443"}}
	if diff := cmp.Diff(want, got.Network); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// Full is everything public: nothing that is private may come in by name.
	for _, host := range []string{"a.example:443", "10.0.0.1:80", "host.forage.internal:80"} {
		project, err := loadProject(t, "allowedHosts = ['"+host+"']")
		testdir.Must(t, err)
		if _, err := config.Tighten(full, project); !errors.Is(err, forage.ErrDenied) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestTightenRefusesMore: whatever a project asks for beyond the template is
// denied, with file and line.
func TestTightenRefusesMore(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"network = 'full'", `:1: network = "full" is more than the template base allows (restricted)`},
		{"\nallowedHosts = [\n'a.example',\n'evil.example']", ":4: allowedHosts: evil.example is not among"},
		{"allowedHosts = ['*.a.example']", "*.a.example is not"},
		{"allowedHosts = ['a.example:443']", "a.example:443 is not"},
		{"allowedHosts = ['x.b.example:443']", "x.b.example:443 is not"},
		{"allowedHosts = ['10.0.0.1:81']", "10.0.0.1:81 is not"},
		{"resourceLimits.tasksMax = 101", ":1: resourceLimits.tasksMax is more"},
		{"traffic.requestsPerMinute = 61", ":1: traffic.requestsPerMinute is more than the template base allows"},
		{"[traffic]\nmaxTokens = 3\nbytesMax = '2G'", ":3: traffic.bytesMax is more"},
	} {
		project, err := loadProject(t, test.text)
		if err != nil {
			t.Fatalf("%s: %v", test.text, err)
		}
		_, err = config.Tighten(base(), project)
		if forage.ExitCode(err) != 8 || !strings.Contains(err.Error(), config.ProjectFile) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
	none := base()
	none.Network.Mode = forage.NetworkNone
	project, err := loadProject(t, "allowedHosts = ['a.example']")
	testdir.Must(t, err)
	if _, err := config.Tighten(none, project); !errors.Is(err, forage.ErrDenied) {
		t.Errorf("hosts where there is no network: %v", err)
	}
}

// TestTightenBesideRules: a host of the project's is none that would be asked
// before a rule of the template's.
func TestTightenBesideRules(t *testing.T) {
	template := forage.Template{Name: "ruled", Network: forage.Network{
		Mode: forage.NetworkRestricted, Allow: []string{"*.example", "own.example"},
		Rules: []forage.Rule{{Host: "*.api.example", Methods: []string{"GET"}}, {Host: "*.no.example", Paths: []string{"/admin"}, Deny: true}},
	}}
	for text, want := range map[string]string{
		"x.api.example":     ":1: allowedHosts: x.api.example would go before the rule for *.api.example in the template ruled",
		"*.v1.api.example":  "would go before",
		"a.no.example":      "would go before",
		"*.no.example":      "",
		"own.example":       "",
		"*.example":         "",
		"other.example":     "",
		"x.api.example.com": "is not among the hosts",
	} {
		project, err := loadProject(t, "allowedHosts = ['"+text+"']")
		testdir.Must(t, err)
		_, err = config.Tighten(template, project)
		if want == "" && err != nil || want != "" && (forage.ExitCode(err) != 8 || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTightenBesideSet: which hosts a rule for a set has is not known yet, so another host may be
// one.
func TestTightenBesideSet(t *testing.T) {
	template := forage.Template{Name: "ruled", Network: forage.Network{
		Mode: forage.NetworkRestricted, Allow: []string{"*.example"}, Rules: []forage.Rule{{Host: "@team", Deny: true}},
	}}
	for text, want := range map[string]int{"'*.example'": 0, "'a.example'": 8, "": 0} {
		project, err := loadProject(t, "allowedHosts = ["+text+"]")
		testdir.Must(t, err)
		if _, err = config.Tighten(template, project); forage.ExitCode(err) != want {
			t.Errorf("%s: %v, want %d", text, err, want)
		}
	}
}

// TestTightenExposesNoRule: a host with its port decides before a rule for that host at any port.
// Where the rule would allow what is denied, the host can't be taken away.
func TestTightenExposesNoRule(t *testing.T) {
	part := forage.Rule{Host: "a.example", Paths: []string{"/a"}}
	all := forage.Rule{Host: "a.example", Deny: true}
	for _, test := range []struct {
		allowed, kept string
		rules         []forage.Rule
		refused       bool
	}{
		{"a.example:443", "", []forage.Rule{part, all}, true},
		{"a.example:443", "'a.example:443'", []forage.Rule{part, all}, false},
		{"a.example:443", "", []forage.Rule{part, {Host: "a.example", Paths: []string{"/**"}, Deny: true}}, true},
		{"a.example:443", "", []forage.Rule{part, {Host: "a.example", Methods: []string{"POST"}, Deny: true}}, true},
		{"a.example:443", "", []forage.Rule{part, {Host: "b.example", Deny: true}}, false},
		{"a.example:443", "", []forage.Rule{part}, false},
		{"a.example:443", "", []forage.Rule{{Host: "@team", Paths: []string{"/a"}}, all}, true},
		{"@team", "", []forage.Rule{part, all}, true},
		{"*.example:443", "", []forage.Rule{{Host: "*.example", Methods: []string{"GET"}}, {Host: "*.example", Deny: true}}, true},
		{"a.example", "", []forage.Rule{part, all}, false},
		{"*.example:443", "", []forage.Rule{part, all}, false},
	} {
		template := forage.Template{Name: "t", Network: forage.Network{
			Mode: forage.NetworkRestricted, Allow: []string{test.allowed}, Rules: test.rules,
			Sets: map[string][]string{"@team": {"a.example:443"}},
		}}
		project, err := loadProject(t, "allowedHosts = ["+test.kept+"]")
		testdir.Must(t, err)
		after, err := config.Tighten(template, project)
		if test.refused {
			if forage.ExitCode(err) != 8 || !strings.Contains(err.Error(), ":1: allowedHosts: without "+test.allowed+" the rule for ") {
				t.Errorf("%+v: %v, want a refusal", test, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		for _, request := range requests() {
			was, is := decide(t, template.Network, request), decide(t, after.Network, request)
			if is.Verdict > was.Verdict {
				t.Errorf("%+v: %+v: %+v became %+v", test, request, was, is)
			}
		}
	}
}

func decide(t *testing.T, n forage.Network, r policy.Request) policy.Decision {
	t.Helper()
	p, err := policy.Compile(n)
	testdir.Must(t, err)
	return policy.Decide(p, r)
}

// TestProjectKeys: what would loosen, or run something, is not for a project.
func TestProjectKeys(t *testing.T) {
	for text, code := range map[string]int{
		"template = 'x'":                                      8,
		"defaultTemplate = 'x'":                               8,
		"initCommands = ['x']":                                8,
		"[agents.claude]\ncommand = ['x']":                    8,
		"[templates.claude]\nnetwork = 'full'":                8,
		"[secrets.x]\nenv = 'HOME'":                           8,
		"sshListen = '0.0.0.0'":                               8,
		"network = 3":                                         64,
		"network = { resolve = {} }":                          64,
		"allowedHosts = ['*']":                                64,
		"resourceLimits = { tasksMax = -1 }":                  64,
		"traffic = { maxTokens = 0 }":                         64,
		"monitor = true":                                      8,
		"secrets = ['github']":                                8,
		"[[rules]]\nhost = 'a.b'":                             8,
		"[[rules]]\nhost = 'a.b'\ndeny = false":               8,
		"[[rules]]\ndeny = true":                              64,
		"[[rules]]\nhost = '@npm'\ndeny = true":               64,
		"[[rules]]\nhost = 'a.b'\npaths = ['x']\ndeny = true": 64,
		"= 1": 64,
	} {
		_, err := loadProject(t, text)
		if forage.ExitCode(err) != code || !strings.Contains(err.Error(), config.ProjectFile+":") {
			t.Errorf("%s: %v (exit status %d, want %d)", text, err, forage.ExitCode(err), code)
		}
	}
}

func TestProjectForbids(t *testing.T) {
	project, err := loadProject(t, "network = 'none'\n[forbid]\nflags = ['mount']\nmounts = ['~/.ssh']\nruntimes = ['docker']")
	testdir.Must(t, err)
	forbid := mustLoad(t, "[forbid]\nflags = ['env']").Forbid.And(project.Forbid)
	for what, err := range map[string]error{
		"the user's":     forbid.CheckFlag("env"),
		"the project's":  forbid.CheckFlag("mount"),
		"the caller's ~": forbid.CheckMount(testHome + "/.ssh/id"),
		"runtime":        forbid.CheckRuntime("docker"),
		"restricted":     forbid.CheckNetwork(forage.NetworkRestricted),
		"full":           forbid.CheckNetwork(forage.NetworkFull),
	} {
		testdir.Fails(t, what, forage.ErrDenied, err)
	}
	if err := forbid.CheckNetwork(forage.NetworkNone); err != nil {
		t.Error(err)
	}
}

// TestHostileProjectFiles: whatever an agent leaves in the place of the file.
func TestHostileProjectFiles(t *testing.T) {
	secret := write(t, t.TempDir(), "secret", "network = 'none'\n")
	for name, test := range map[string]struct {
		plant func(path string) error
		want  string
	}{
		"link":     {func(p string) error { return os.Symlink(secret, p) }, "is a link"},
		"dangling": {func(p string) error { return os.Symlink("/nosuch", p) }, "is a link"},
		"folder":   {func(p string) error { return os.Mkdir(p, 0o755) }, "not a regular file"},
		"fifo":     {func(p string) error { return syscall.Mkfifo(p, 0o644) }, "not a regular file"},
		"socket":   {func(p string) error { return syscall.Mknod(p, syscall.S_IFSOCK|0o644, 0) }, "no such device"},
		"big": {func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("#", 64<<10+1)), 0o644)
		}, "larger than 65536 bytes"},
		"sparse": {func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o644), os.Truncate(p, 1<<40))
		}, "larger than 65536 bytes"},
		"rules": {func(p string) error {
			return os.WriteFile(p, []byte("[[rules]]\nhost='a.b'\ndeny=true\npaths=['/**/a'"+strings.Repeat(",'/**/a'", 200)+"]"), 0o644)
		}, "rules[0]: more than 200 rules and paths"},
		"nested": {func(p string) error { return os.WriteFile(p, []byte("a="+strings.Repeat("[", 60000)), 0o644) }, "not valid TOML"},
		"nested2": {func(p string) error {
			return os.WriteFile(p, []byte("allowedHosts="+strings.Repeat("[", 30000)+strings.Repeat("]", 30000)), 0o644)
		}, ""},
		"dotted":  {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("a.", 30000)+"a=1"), 0o644) }, ""},
		"control": {func(p string) error { return os.WriteFile(p, []byte("network = \"\\u001b[31m\\n\""), 0o644) }, `"\x1b[31m\n": expected full`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			testdir.Must(t, test.plant(filepath.Join(dir, config.ProjectFile)))
			done := make(chan error, 1)
			go func() { _, err := config.LoadProject(dir); done <- err }()
			select {
			case err := <-done:
				if !errors.Is(err, forage.ErrUsage) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %.300v, want %q", err, test.want)
				}
				if len(err.Error()) > 4096 {
					t.Errorf("the message has %d bytes", len(err.Error()))
				}
			case <-time.After(time.Minute):
				t.Fatal("reading it takes forever")
			}
		})
	}
	if _, err := config.LoadProject(t.TempDir()); err != nil {
		t.Errorf("no file: %v", err)
	}
}
