package fault

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
	"forage/internal/testgit"
)

// usual is how often each operation is killed in each run: 30 times in all. A soak kills each 30
// times, which is more than 600.
var usual = map[string]int{"import": 7, "apply": 7, "snapshot restore": 7, "down --force": 7, "up --git-worktree": 1, "fork": 1}

// TestKilledInOperation kills what changes files somewhere on its way, checks that everything is
// there still, and does it again.
func TestKilledInOperation(t *testing.T) {
	for _, o := range operations {
		times := usual[o.name]
		if testdir.Soak() {
			times = 30
		}
		if times == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) {
			s := newSteps(t, o)
			begun := time.Now()
			s.interrupted(patience)
			took := time.Since(begun)
			for range times {
				s.kill(time.Duration(rand.Int64N(int64(took))))
			}
		})
	}
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
	testdir.Must(t, os.WriteFile(filepath.Join(s.home, ".gitconfig"), []byte(identity), 0o600))
	testdir.Must(t, os.Mkdir(s.temporary(), 0o700))
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

// temporary is a folder in which nothing is left.
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

// kill kills the operation after a time.
func (s *steps) kill(after time.Duration) {
	t := s.t
	t.Helper()
	s.killAll()
	s.host("rm", "-rf", s.base())
	s.host("cp", "-a", s.saved, s.base())
	output := s.interrupted(after)
	s.await("what outlives the kill by itself to end", func() bool { reap(); return len(processes()) == len(s.supervisors()) })
	var trail strings.Builder
	fmt.Fprintf(&trail, "killed after %v\n%s", after, output)
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
	if rand.IntN(2) == 0 {
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
}

// interrupted runs the operation until it is killed after a time, or the supervisor that it
// starts is, and returns what it says.
func (s *steps) interrupted(after time.Duration) string {
	s.t.Helper()
	script := s.do
	if !s.supervisor {
		script = "exec " + script
	}
	cmd := s.command(script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, patience
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() {
		if s.supervisor {
			s.killSupervisorNow()
			return
		}
		cmd.Process.Kill()
	})
	defer timer.Stop()
	_ = cmd.Wait() // it was killed, or not
	return out.String()
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
