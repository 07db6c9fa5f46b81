package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage/internal/audit"
	"forage/internal/testdir"
)

// patience bounds every wait for something that has to happen, a real agent's whole task too.
const patience = 8 * time.Minute

// program is Forage as a stranger runs it, an ordinary user with folders of their own for this
// test. It was built before: compiling is no part of what has to be done in time.
type program struct {
	t          *testing.T
	stateDir   string
	runtimeDir string
	home       string
	env        []string // the caller's whole environment
}

// systemPath has the tools that every user has. Those of the caller, and their caches, would come
// along into each sandbox, and hundreds of thousands of files would be searched for secrets.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// newProgram writes config as the user's configuration. The user has a home of their own. extraPath
// goes in front of the system's PATH; extraEnv ("K=V") is added to the caller's environment.
func newProgram(t *testing.T, config, extraPath string, extraEnv ...string) *program {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("stands for an ordinary user, and root is not one")
	}
	return newProgramOfAnybody(t, config, extraPath, extraEnv...)
}

func newProgramOfAnybody(t *testing.T, config, extraPath string, extraEnv ...string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, stateDir: filepath.Join(dir, "state")}
	configFile := filepath.Join(dir, "config.toml")
	testdir.Must(t, os.WriteFile(configFile, []byte(config), 0o600))
	runtimeDir := filepath.Join(dir, "run")
	testdir.Must(t, os.Mkdir(runtimeDir, 0o700))
	p.runtimeDir = runtimeDir
	p.home = filepath.Join(dir, "home")
	testdir.Must(t, os.Mkdir(p.home, 0o700))
	write(t, filepath.Join(p.home, ".profile"), "# of the host\n")
	p.env = append([]string{
		"HOME=" + p.home,
		"USER=" + os.Getenv("USER"),
		"PATH=" + extraPath + ":" + systemPath,
		"LANG=C.UTF-8",
		"FORAGE_CONFIG=" + configFile,
		"FORAGE_STATE_DIR=" + p.stateDir,
		"FORAGE_RUNTIME_DIR=" + runtimeDir,
	}, extraEnv...)
	return p
}

// run runs forage-ctl and returns its standard output; it fails the test when
// the exit code is not 0.
func (p *program) run(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), patience) // cleaning up included
	defer cancel()
	cmd := exec.CommandContext(ctx, built, args...)
	cmd.Dir = filepath.Dir(built) // the project's configuration is that of the folder, and there is none
	cmd.Env = p.env
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("forage-ctl %q: %v\nstdout:\n%s\nstderr:\n%s", args, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

// auditEvents is what `audit NAME -o json` prints.
func (p *program) auditEvents(name string) []audit.Event {
	p.t.Helper()
	out := p.run("audit", name, "-o", "json")
	var events []audit.Event
	if strings.HasPrefix(strings.TrimSpace(out), "[") {
		if err := json.Unmarshal([]byte(out), &events); err != nil {
			p.t.Fatalf("audit printed what is not JSON: %v\n%s", err, out)
		}
		return events
	}
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		var event audit.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			p.t.Fatalf("audit printed a line that is not JSON: %v\n%s", err, lines.Text())
		}
		events = append(events, event)
	}
	return events
}

// installed finds an agent as npm installs it: outside the system's folders.
func installed(t *testing.T, name string) string {
	t.Helper()
	candidates := []string{name}
	if cache, err := os.UserCacheDir(); err == nil {
		candidates = append(candidates, filepath.Join(cache, "forage-tests", "npm", "bin", name))
	}
	for _, candidate := range candidates {
		path, err := exec.LookPath(candidate)
		if err == nil && !strings.HasPrefix(path, "/usr/") && !strings.HasPrefix(path, "/bin/") {
			return path
		}
	}
	t.Skipf("%s is not installed: `make acceptance` installs it from npm", name)
	return ""
}

// newProject makes a folder for an agent to work on, with one file in it.
func newProject(t *testing.T) (dir, greeting string) {
	t.Helper()
	dir = t.TempDir()
	greeting = filepath.Join(dir, "greeting.txt")
	testdir.Must(t, os.WriteFile(greeting, []byte("hello before\n"), 0o644))
	return dir, greeting
}

func checkFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	testdir.Must(t, err)
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", filepath.Base(path), got, want)
	}
}
