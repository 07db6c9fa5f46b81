package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
	"forage/internal/testgit"
)

// usual are the operations that are killed in each run, at one step each; `make soak` has all.
var usual = []string{"up --git-worktree", "down --force", "apply", "snapshot restore", "fork"}

// TestKilledAtEachStep kills what changes files before a change that it is about to make, looks whether everything is there still
// and does it again. A soak takes one change in ten of each operation, other runs the same few each time.
// FORAGE_FAULT_SEED has them be others, FORAGE_FAULT_STRIDE is another number than ten, FORAGE_FAULT_STEP is one of each operation.
func TestKilledAtEachStep(t *testing.T) {
	seed, step := number(t, "FORAGE_FAULT_SEED"), number(t, "FORAGE_FAULT_STEP")
	stride := cmp.Or(number(t, "FORAGE_FAULT_STRIDE"), 10)
	all := testdir.Soak()
	if seed == 0 && all {
		seed = int(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for _, o := range operations {
		if !all && step == 0 && !slices.Contains(usual, o.name) {
			continue
		}
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) {
			s := newSteps(t, o)
			first, last := step, 0
			switch {
			case step > 0:
			case all:
				first, last = 1+random.IntN(stride), math.MaxInt
			default:
				first = 1 + random.IntN(s.count())
			}
			killed := 0
			for step := first; s.kill(step); step += stride {
				if killed++; step >= last {
					break
				}
			}
			t.Logf("killed at %d steps, from step %d on", killed, first)
		})
	}
}

func number(t *testing.T, variable string) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// steps is one operation in a world of its own, which each round finds as it was at first.
type steps struct {
	*world
	operation
	saved string // the world as it was before the operation
}

func newSteps(t *testing.T, o operation) *steps {
	t.Helper()
	if _, err := exec.LookPath("jj"); o.jj && err != nil {
		t.Skip("jj is not installed")
	}
	s := &steps{world: newWorld(t), operation: o}
	identity := "[user]\n\tname = A\n\temail = a@example.com\n"
	if err := os.WriteFile(filepath.Join(s.home, ".gitconfig"), []byte(identity), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.temporary(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range o.before {
		if out, err := s.shell(command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	s.await("every process to end", func() bool { reap(); return len(processes()) == 0 })
	s.saved = filepath.Join(t.TempDir(), "saved")
	s.host("cp", "-a", s.base(), s.saved)
	return s
}

func (s *steps) base() string { return filepath.Dir(s.state) }

// temporary is a folder in which nobody leaves anything.
func (s *steps) temporary() string { return filepath.Join(s.base(), "tmp") }

// host runs a program of the host.
func (s *steps) host(argv ...string) {
	s.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		s.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

func (s *steps) command(script string) *exec.Cmd {
	cmd := s.world.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
	cmd.Env = append(testgit.Environ(s.home), cmd.Env[2:]...)
	cmd.Env = append(cmd.Env, "TMPDIR="+s.temporary(), "forage="+program, "repo="+s.repository, "state="+s.state, "files="+s.files)
	return cmd
}

func (s *steps) shell(script string) (string, error) {
	cmd := s.command(script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// count is how many steps the operation has.
func (s *steps) count() int {
	s.t.Helper()
	answer, output := s.trace(math.MaxInt)
	s.killAll()
	if answer.Steps == 0 {
		s.t.Fatalf("it has no steps:\n%s", output)
	}
	return answer.Steps
}

// kill kills the operation before a step, and says whether there was one.
func (s *steps) kill(step int) bool {
	t := s.t
	t.Helper()
	s.killAll()
	s.host("rm", "-rf", s.base())
	s.host("cp", "-a", s.saved, s.base())
	answer, output := s.trace(step)
	s.await("what outlives the kill by itself to end", func() bool { reap(); return len(processes()) == len(s.supervisors()) })
	var trail strings.Builder
	fmt.Fprintf(&trail, "killed before step %d of %d, %s (exit %d)\n%s", step, answer.Steps, answer.At, answer.Exit, output)
	failed := false
	fail := func(format string, args ...any) {
		t.Helper()
		if !failed {
			t.Errorf("%s", trail.String())
		}
		failed = true
		t.Errorf(format, args...)
	}
	do := func(script string) (string, error) {
		out, err := s.shell(script)
		fmt.Fprintf(&trail, "$ %s (%v)\n%s", script, err, out)
		return out, err
	}
	var there []string
	found := s.everything()
	for _, text := range theWork {
		if strings.Contains(found, text) {
			there = append(there, text)
		}
	}
	kept := func(when string) {
		t.Helper()
		found := s.everything()
		for _, text := range append(there, s.work...) {
			if !strings.Contains(found, text) {
				fail("%s: %s is lost", when, text)
			}
		}
	}
	for _, text := range s.work {
		if !strings.Contains(found, text) {
			fail("after the kill: %s is lost", text)
		}
	}
	if step%2 == 0 {
		if out, err := do("$forage gc"); err != nil {
			fail("gc: %v\n%s", err, out)
		}
		kept("after gc")
	}
	s.await("what was being started to be running or undone", func() bool {
		_, err := s.shell(`case $($forage ps) in *creating*) $forage gc; exit 1 ;; esac`)
		return err == nil
	})
	out, err := do(s.do)
	again := err == nil
	for _, text := range s.done {
		again = again || strings.Contains(out, text)
	}
	if !again {
		fail("the same again: %v\n%s", err, out)
	}
	if s.check != "" {
		if out, err := do(s.check); err != nil {
			fail("what it should have done isn't: %v\n%s", err, out)
		}
	}
	for _, box := range s.statuses() {
		if out, err := do("$forage down --force " + box.Name); err != nil {
			fail("down --force %s: %v\n%s", box.Name, err, out)
		}
	}
	kept("after down --force")
	s.clear(fail)
	if failed {
		t.Errorf("%s", trail.String())
	}
	return answer.Killed
}

// trace runs the operation under a tracer.
func (s *steps) trace(step int) (traced, string) {
	s.t.Helper()
	how, err := json.Marshal(tracing{Supervisor: s.supervisor, Step: step, Quiet: []string{filepath.Join(s.runtime, ".scratch")}})
	if err != nil {
		s.t.Fatal(err)
	}
	script := s.do
	if !s.supervisor {
		script = "exec " + script
	}
	cmd := s.command(script)
	cmd.Path, cmd.Args = os.Args[0], append([]string{os.Args[0]}, cmd.Args...)
	cmd.Args[1] = "/bin/sh"
	cmd.Env = append(cmd.Env, tracingVariable+"="+string(how))
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	var answer traced
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("tracing: %v\n%s", err, messages.String())
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		s.t.Fatalf("%v: %s", err, out.String())
	}
	if answer.Refused != "" {
		s.t.Skip("processes can't be traced here: " + answer.Refused)
	}
	return answer, messages.String()
}

// everything is what its owner finds on this host: in files, and in commits that a ref keeps.
func (s *steps) everything() string {
	var all strings.Builder
	_ = filepath.WalkDir(s.base(), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it went meanwhile
		case entry.IsDir() && entry.Name() == "objects":
			cmd := exec.Command("git", "--git-dir="+filepath.Dir(path), "log", "--all", "-m", "-p", "--format=%s")
			cmd.Env = append(testgit.Environ(s.home), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(s.repository, ".git/objects"))
			out, _ := cmd.Output() // a repository that is about to go may be half gone
			all.Write(out)
			return fs.SkipDir
		case entry.IsDir() && (entry.Name() == "snapshots" || entry.Name() == ".scratch"):
			return fs.SkipDir
		case entry.Type().IsRegular() && !strings.Contains(path, "/.git/") && !strings.Contains(path, "/sandboxes/"):
			content, _ := os.ReadFile(path)
			all.Write(content)
		}
		return nil
	})
	return all.String()
}

var ofTheStore = regexp.MustCompile(`^(sandboxes(/run-[^/]*\.audit\..*)?|locks(/\.store\.lock)?|workspaces|homes|repositories(/\.recovery|/\.apply(/[^/]*)?)?|id_ed25519(\.pub)?|runtime|snapshots.*|quarantine.*)$`)

// clear lets the kept work go, as gc would in its time, and looks whether anything else is left.
func (s *steps) clear(fail func(string, ...any)) {
	s.t.Helper()
	s.await("every process to end", func() bool { reap(); return len(processes()) == 0 })
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = s.repository, testgit.Environ(s.home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			fail("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if list := git("worktree", "list", "--porcelain"); strings.Contains(list, s.state) {
		fail("a worktree is left:\n%s", list)
	}
	if s.name == "run" { // of which a branch stays
		for ref := range strings.Lines(git("for-each-ref", "--format=%(refname)", "refs/heads/forage-run-*")) {
			git("update-ref", "-d", strings.TrimSpace(ref))
		}
	}
	notes, _ := filepath.Glob(filepath.Join(s.state, "repositories/.recovery/*.json"))
	for _, note := range notes { // it is long ago by now
		text, err := os.ReadFile(note)
		if err == nil {
			err = os.WriteFile(note, bytes.ReplaceAll(text, []byte(`"made": "2`), []byte(`"made": "1`)), 0o600)
		}
		if kept := bytes.Contains(text, []byte("refs/heads/")) || len(s.work) > 0 || s.name == "run"; err != nil || !kept && !strings.HasSuffix(note, ".removing.json") {
			fail("%s is kept though there was no work (%v):\n%s", note, err, text)
		}
	}
	git("fsck", "--strict")
	if out := git("status", "--porcelain"); out != "" && !s.jj && !s.changes {
		fail("git status of the repository: %s", out)
	}
	old := unix.NsecToTimeval(time.Now().Add(-40 * 24 * time.Hour).UnixNano())
	_ = filepath.WalkDir(s.base(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			_ = unix.Lutimes(path, []unix.Timeval{old, old})
		}
		return nil
	})
	if out, err := s.shell("$forage gc"); err != nil {
		fail("the last gc: %v\n%s", err, out)
	}
	for ref := range strings.Lines(git("for-each-ref", "--format=%(refname)")) {
		if ref = strings.TrimSpace(ref); ref != "refs/heads/main" && !strings.HasPrefix(ref, "refs/jj/") {
			fail("%s is left in the repository", ref)
		}
	}
	if left, err := os.ReadDir(s.temporary()); err != nil || len(left) > 0 {
		fail("left in the folder for temporary files: %v (%v)", left, err)
	}
	_ = filepath.WalkDir(s.state, func(path string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.state, path)
		if err == nil && rel != "." && !ofTheStore.MatchString(rel) {
			fail("%s is left in the state folder", rel)
		}
		return nil
	})
	_ = filepath.WalkDir(s.runtime, func(path string, entry fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(s.runtime, path); err == nil && rel != "." && rel != ".scratch" {
			fail("%s is left in the run-time folder", rel)
		}
		return nil
	})
	_ = filepath.WalkDir(filepath.Join(s.repository, ".git"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".lock") || strings.Contains(path, "/worktrees")) {
			fail("%s is left in the repository", path)
		}
		return nil
	})
	s.intact()
}
