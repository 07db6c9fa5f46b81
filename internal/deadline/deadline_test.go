package deadline

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

func TestWhatDoesNotAnswerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := Within(t.Context(), Answer, "the guest")
		defer cancel()
		forever := make(chan error)
		err := Do(ctx, func() error { return <-forever })
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "the guest has not answered within 30s" {
			t.Errorf("it ends with %v", err)
		}
		close(forever)
		if err := Do(t.Context(), func() error { return io.EOF }); err != io.EOF {
			t.Errorf("what answers: %v", err)
		}
	})
}

func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, theirs := net.Pipe()
		defer theirs.Close()
		defer Drop(t.Context(), Answer, silent)()
		if _, err := silent.Read(make([]byte, 1)); err == nil {
			t.Error("a silent connection stays")
		}
		ours, theirs := net.Pipe()
		defer ours.Close()
		Drop(t.Context(), Answer, ours)()
		go theirs.Write([]byte("x"))
		if _, err := ours.Read(make([]byte, 1)); err != nil {
			t.Errorf("a connection that answered: %v", err)
		}
	})
}

func TestKill(t *testing.T) {
	for _, ours := range []bool{false, true} {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		testdir.Must(t, err)
		if err := Kill(cmd.Process.Pid, func() (bool, error) { return ours, nil }); err != nil {
			t.Error(err)
		}
		in.Close()
		if killed := cmd.Wait() != nil; killed != ours {
			t.Errorf("ours %v: killed %v", ours, killed)
		}
		if err := Kill(cmd.Process.Pid, func() (bool, error) { return false, nil }); err != nil {
			t.Errorf("one that has ended: %v", err)
		}
	}
}

// A wait for a lock that was given up takes it from no other.
func TestFlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		file, err := os.Create(path)
		testdir.Must(t, err)
		return file
	}
	held, second, third := open(), open(), open()
	defer third.Close()
	testdir.Must(t, Flock(t.Context(), held, unix.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	testdir.Fails(t, "it is not given up", context.Canceled, Flock(ctx, second, unix.LOCK_EX))
	second.Close()
	held.Close()
	if err := Flock(t.Context(), third, unix.LOCK_EX); err != nil {
		t.Error(err)
	}
}
