package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testdir"
)

// killedSubject has, in the environment, the subject that a child of the test program applies.
const killedSubject = "FORAGE_TEST_APPLY"

// A real kill -9, at moments as they come: git goes on working in the user's repository, nothing of the user's is lost, and the next
// apply does what the first should have done.
func TestKilledWhileApplying(t *testing.T) {
	if text := os.Getenv(killedSubject); text != "" {
		applyUntilKilled(t, text)
		return
	}
	// What outlives a killed apply comes to us, and is waited for: a command waits for the lock that it has then.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	rounds := 4
	if testdir.Soak() {
		rounds = 30
	}
	moments := []string{"journal", "dir0/file0", "dir8/file116", ".git/index.lock"}
	for range rounds {
		moments = append(moments, "")
	}
	for round, moment := range moments {
		b := newBox(t, map[string]string{"a": "1\n", "mine": "1\n", "gone": "g\n", "dir": "a file\n", "become/x": "x\n"})
		if err := errors.Join(os.Remove(filepath.Join(b.work.Dir, "dir")), os.RemoveAll(filepath.Join(b.work.Dir, "become")),
			os.Remove(filepath.Join(b.work.Dir, "gone"))); err != nil {
			t.Fatal(err)
		}
		for i := range 120 {
			b.write(b.work.Dir, fmt.Sprintf("dir%d/file%d", i%9, i), strings.Repeat("line\n", 1000*i))
		}
		b.write(b.work.Dir, "a", "1\n2\n")
		b.write(b.work.Dir, "dir/deep", "2\n")
		b.write(b.work.Dir, "become", "a file\n")
		b.commit("work")
		b.write(b.user.Dir, "mine", "the user's change\n")
		b.write(b.user.Dir, "staged", "s\n")
		b.user.Git("add", "staged")
		b.write(b.user.Dir, "untracked", "u\n")
		before := b.everything()
		file := filepath.Join(b.user.Dir, moment)
		if moment == "journal" {
			file = journalFile(b.subject.folder())
		}
		if moment == "" {
			killAfter(t, b, time.Duration(rand.IntN(1200))*time.Millisecond, round%2 == 0)
		} else {
			killWhen(t, b, file, round%2 == 0)
		}
		for _, lock := range []string{"refs/heads/main.lock", "HEAD.lock"} { // as after any git that was killed
			if err := os.Remove(filepath.Join(b.user.Dir, ".git", lock)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		b.user.Git("status")
		b.user.Git("fsck", "--strict")
		if err := Recover(t.Context(), b.subject, nil); err != nil {
			t.Fatalf("killed at %q: %v", moment, err)
		}
		if log := b.user.Git("log", "--format=%s", "main"); log == "base" {
			if diff := cmp.Diff(before, b.everything()); diff != "" {
				t.Errorf("killed at %q, and taken back (-before +after):\n%s", moment, diff)
			}
		}
		b.mustApply(Options{})
		if status := b.user.Git("status", "--porcelain"); status != "M mine\nA  staged\n?? untracked" {
			t.Errorf("killed at %q: status %q", moment, status)
		}
		if log := b.user.Git("log", "--format=%s", "main"); log != "work\nbase" {
			t.Errorf("killed at %q: log %q", moment, log)
		}
		if left, _ := filepath.Glob(filepath.Join(b.user.Dir, ".git/index?*")); len(left) > 0 {
			t.Errorf("killed at %q: left %q", moment, left)
		}
	}
}

// killAfter is killWhen after a time.
func killAfter(t *testing.T, b *box, delay time.Duration, all bool) {
	t.Helper()
	sign := filepath.Join(t.TempDir(), "now")
	timer := time.AfterFunc(delay, func() { _ = os.WriteFile(sign, nil, 0o600) })
	defer timer.Stop()
	killWhen(t, b, sign, all)
}

// killWhen starts an apply and kills it as soon as that file is there, or lets it come to its end. all: every git that it has started too.
func killWhen(t *testing.T, b *box, file string, all bool) {
	t.Helper()
	text, err := json.Marshal(b.subject)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileApplying$")
	child.Env = append(os.Environ(), killedSubject+"="+string(text))
	var said strings.Builder
	child.Stdout = &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	look, deadline := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer look.Stop()
	for there := false; !there; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			return
		case <-deadline:
			there = true
		case <-look.C:
			_, err := os.Lstat(file)
			there = err == nil
		}
	}
	if err := child.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-ended
	if all { // they are our children now
		children, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(pid); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return
		} else if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}

func applyUntilKilled(t *testing.T, text string) {
	var subject Subject
	if err := json.Unmarshal([]byte(text), &subject); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), Options{}); err != nil {
		t.Fatal(err, forage.Hint(err))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
