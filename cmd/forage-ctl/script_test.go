package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// scriptFile names, in the environment, the one script that a child of the
// test program runs.
const scriptFile = "FORAGE_TEST_SCRIPT"

// ordinaryUID is who runs the scripts of an ordinary user when root runs the
// tests. No such user needs to exist.
const ordinaryUID = 54321

// scriptLimit is how long one script may take.
const scriptLimit = 8 * time.Minute

// TestMain makes the test program into forage-ctl, and into its guest and its
// supervisor, when it is started as such: the scripts run it, and not another build.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "forage-ctl" || roleOf(os.Args) != nil {
		main()
	}
	os.Exit(m.Run())
}

// TestScripts runs testdata/script, the manual of forage-ctl that checks
// itself. Each script runs as an ordinary user, and those that differ for root once more
// when root runs the tests, in a process of its own, which inherits what the script leaves.
func TestScripts(t *testing.T) {
	if file := os.Getenv(scriptFile); file != "" {
		runScript(t, file)
		return
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	dir := publicCopy(t)
	for _, who := range callers() {
		t.Run(who.name, func(t *testing.T) {
			for _, file := range files {
				if who.name == "root" && !asRoot(t, file) {
					continue
				}
				t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
					t.Parallel()
					startScript(t, dir, file, who)
				})
			}
		})
	}
}

type caller struct {
	name       string
	credential *syscall.Credential // nil: as we are
}

func callers() []caller {
	if os.Getuid() != 0 {
		return []caller{{name: "user"}}
	}
	return []caller{{"user", &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}, {name: "root"}}
}

// asRoot says whether a script is for root too: attacks are, and those that say [root] or [!root]
// but not to skip.
func asRoot(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	if strings.Contains(string(text), "[root] skip") {
		return false
	}
	return testdir.Soak() || strings.HasPrefix(filepath.Base(file), "attack_") || strings.Contains(string(text), "root] ")
}

// publicCopy puts what the scripts need where every user can read it: this
// program, by its name, and the scripts.
func publicCopy(t *testing.T) string {
	t.Helper()
	base := testdir.Base() // scripts write paths unquoted
	if info, err := os.Stat(base); err != nil || info.Mode().Perm()&0o001 == 0 {
		base = "/tmp" // root's is closed to others
	}
	dir, err := os.MkdirTemp(base, "forage-scripts")
	testdir.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	testdir.Must(t, err)
	check(t, os.Chmod(dir, 0o755))
	check(t, os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")))
	check(t, os.CopyFS(filepath.Join(dir, "docs"), os.DirFS(docsDir+"/docs")))
	check(t, copyFile(docsDir+"/README.md", filepath.Join(dir, "README.md")))
	check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	check(t, copyFile(self, filepath.Join(dir, "bin", "forage-ctl.test")))
	check(t, os.Symlink("forage-ctl.test", filepath.Join(dir, "bin", "forage-ctl")))
	check(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	check(t, os.Chmod(filepath.Join(dir, "tmp"), os.ModeSticky|0o777))
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	testdir.Must(t, err)
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	return target.Close()
}

// startScript runs one script in a process of its own, as who.
func startScript(t *testing.T, dir, file string, who caller) {
	args := []string{"-test.run=^TestScripts$", "-test.timeout=" + scriptLimit.String(), "-test.v=" + fmt.Sprint(testing.Verbose())}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "forage-ctl.test"), args...)
	cmd.Dir = dir
	cmd.Env = []string{
		scriptFile + "=" + file,
		"PATH=" + filepath.Join(dir, "bin") + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		"GOTMPDIR=" + filepath.Join(dir, "tmp"), "TMPDIR=" + filepath.Join(dir, "tmp"),
	}
	for _, name := range []string{"GOCOVERDIR", "DOCKER_HOST"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = time.Minute // a script that took too long may have left a process that holds its output
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%s as %s: %v\n%s", file, who.name, err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	default:
		t.Logf("%s", out)
	}
}

// runScript runs one script here and fails when it leaves anything behind.
func runScript(t *testing.T, file string) {
	testdir.Must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	unix.Umask(0o022)
	// Scripts interrupt what they start, also where the tests run with signals ignored, as under
	// nohup(1). What is handled here is not ignored there (execve(2)).
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	testscript.Run(t, testscript.Params{
		Files:              []string{file},
		Setup:              setUp,
		Condition:          condition,
		Cmds:               scriptCommands(),
		RequireUniqueNames: true,
	})
}

// scriptPorts is how many ports of its own each script has: $PORT1, $PORT2 and so on, in the TOML
// files beside it PORT1 ...
const scriptPorts = 4

// setUp gives each script a home, places and ports of its own.
func setUp(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	run := filepath.Join(env.WorkDir, "run")
	for _, dir := range []string{home, run, filepath.Join(env.WorkDir, "project")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	env.Setenv("HOME", home)
	env.Setenv("FORAGE_STATE_DIR", filepath.Join(env.WorkDir, "state"))
	env.Setenv("FORAGE_RUNTIME_DIR", run)
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("TERM", "xterm")
	if dir, err := os.Getwd(); err == nil {
		env.Setenv("PAGES", dir) // of the docs: see publicCopy
	}
	env.Setenv("UID", fmt.Sprint(os.Getuid()))
	env.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
	if err := givePorts(env); err != nil {
		return err
	}
	if config := filepath.Join(env.WorkDir, "config.toml"); exists(config) {
		env.Setenv("FORAGE_CONFIG", config)
	}
	env.Cd = filepath.Join(env.WorkDir, "project")
	env.Values[ptyKey{}] = &ptyState{}
	env.Defer(func() { sweep(env) })
	return nil
}

func givePorts(env *testscript.Env) error {
	first, free, err := testdir.TakePorts(scriptPorts)
	if err != nil {
		return err
	}
	env.Defer(free)
	var values []string
	for i := range scriptPorts {
		name, port := fmt.Sprint("PORT", i+1), fmt.Sprint(first+i)
		env.Setenv(name, port)
		values = append(values, name, port)
	}
	files, err := filepath.Glob(filepath.Join(env.WorkDir, "*.toml"))
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr, os.WriteFile(file, []byte(strings.NewReplacer(values...).Replace(string(text))), 0o666))
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// condition answers [root], [account] (the user is one that the system knows), [docker] (DOCKER_HOST
// names an engine that the user may use) and [static] (the program needs nothing of the root filesystem it runs in).
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Getuid() == 0, nil
	case "account":
		_, err := user.LookupId(fmt.Sprint(os.Getuid()))
		return err == nil, nil
	case "docker":
		return os.Getenv("DOCKER_HOST") != "" && exec.Command("docker", "info").Run() == nil, nil
	case "static":
		return isStatic("/proc/self/exe")
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// isStatic says whether a program names no interpreter (elf(5), PT_INTERP).
func isStatic(path string) (bool, error) {
	file, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), nil
}
