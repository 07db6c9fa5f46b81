package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage"
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
	moments := []string{"note", "dir0/file0", "dir8/file116", ".git/index.lock"}
	for _, moment := range moments {
		b := newBox(t, map[string]string{"a": "1\n", "mine": "1\n"})
		for i := range 120 {
			b.write(b.work.Dir, fmt.Sprintf("dir%d/file%d", i%9, i), strings.Repeat("line\n", i))
		}
		b.write(b.work.Dir, "a", "2\n")
		b.commit("work")
		b.write(b.user.Dir, "mine", "the user's change\n")
		file := filepath.Join(b.user.Dir, moment)
		if moment == "note" {
			file = noteFile(b.subject.folder())
		}
		killWhen(t, b, file)
		for _, lock := range []string{"index.lock", "refs/heads/main.lock", "HEAD.lock"} { // as after any git that was killed
			if err := os.Remove(filepath.Join(b.user.Dir, ".git", lock)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		b.user.Git("status")
		b.user.Git("fsck", "--strict")
		b.mustApply(Options{})
		if status := b.user.Git("status", "--porcelain"); status != "M mine" {
			t.Errorf("killed at %s: status %q", moment, status)
		}
		if log := b.user.Git("log", "--format=%s", "main"); log != "work\nbase" {
			t.Errorf("killed at %s: log %q", moment, log)
		}
	}
}

// killWhen starts an apply and kills it as soon as that file is there, or lets it come to its end.
func killWhen(t *testing.T, b *box, file string) {
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
