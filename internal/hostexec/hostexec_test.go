package hostexec

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

func TestRunGivesACleanEnvironmentAndExactArguments(t *testing.T) {
	t.Setenv("FORAGE_SECRET", "must not pass")
	out, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"env"}, Env: []string{"A=b c"}})
	testdir.Must(t, err)
	lines := strings.Split(strings.TrimSpace(string(out.Stdout)), "\n")
	if !slices.Contains(lines, "A=b c") || strings.Contains(string(out.Stdout), "FORAGE_SECRET") || len(lines) != 3 {
		t.Errorf("environment is %q, want PATH, LC_ALL and A", lines)
	}
	out, err = Run(t.Context(), Command{Timeout: patience, Argv: []string{"printf", "%s|", "$HOME", "a b", "; id", ""}})
	if got, want := string(out.Stdout), "$HOME|a b|; id||"; err != nil || got != want {
		t.Errorf("arguments arrived as %q (%v), want %q", got, err, want)
	}
}

func TestRunIgnoresTheCallersPath(t *testing.T) {
	dir := t.TempDir()
	testdir.Must(t, os.WriteFile(filepath.Join(dir, "planted"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", dir)
	if _, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"planted"}}); !errors.Is(err, ErrNoProgram) {
		t.Errorf("a program on the caller's PATH: %v, want ErrNoProgram", err)
	}
}

func TestRunReportsExitAndBoundsOutput(t *testing.T) {
	out, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"sh", "-c", "head -c 100000 /dev/zero; echo no >&2; exit 3"}, Output: 10})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("exit 3 came back as %v", err)
	}
	if len(out.Stdout) != 10 || string(out.Stderr) != "no\n" {
		t.Errorf("kept %d bytes of output and %q, want 10 and \"no\\n\"", len(out.Stdout), out.Stderr)
	}
}

func TestRunEndsWhatTheCommandStarted(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Run(ctx, Command{Argv: []string{"sh", "-c", "sleep 1000 & echo $! > " + pidFile + "; wait"}, Timeout: patience})
		ended <- err
	}()
	var pid string
	await(t, "the command's child", func() bool {
		text, _ := os.ReadFile(pidFile)
		pid = strings.TrimSpace(string(text))
		return pid != ""
	})
	cancel()
	testdir.Fails(t, "", context.Canceled, <-ended)
	await(t, "the end of the command's child", func() bool {
		state, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}

// patience is as long as the slowest machine needs for what has to happen.
const patience = 5 * time.Minute

func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestRunStreamsInput(t *testing.T) {
	out, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"wc", "-c"}, Input: io.LimitReader(zeros{}, 10<<20)})
	if got := strings.TrimSpace(string(out.Stdout)); err != nil || got != "10485760" {
		t.Errorf("%s bytes arrived (%v), want 10485760", got, err)
	}
	// Who doesn't read to the end is not waited for.
	if _, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"true"}, Input: io.LimitReader(zeros{}, 10<<20)}); err != nil {
		t.Errorf("a program that reads nothing: %v", err)
	}
}

func TestRunBoundsMemory(t *testing.T) {
	// Once it is bound, dd has a buffer of that size, which it writes to.
	hungry := []string{"sh", "-c", `while [ "$(ulimit -d)" = unlimited ]; do :; done; exec dd if=/dev/zero of=/dev/null bs=64M count=1`}
	if out, err := Run(t.Context(), Command{Timeout: patience, Argv: hungry, Memory: 16 << 20}); err == nil {
		t.Errorf("a program had more memory than it may: %s", out.Stderr)
	}
	if out, err := Run(t.Context(), Command{Timeout: patience, Argv: hungry, Memory: 256 << 20}); err != nil {
		t.Errorf("%v: %s", err, out.Stderr)
	}
}

func TestRunBoundsTheProcessorsTime(t *testing.T) {
	out, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"sh", "-c", "echo begun; while :; do :; done"}, CPU: time.Second})
	if !errors.Is(err, ErrCPU) || string(out.Stdout) != "begun\n" {
		t.Errorf("a program that goes on for ever: %v, it wrote %q", err, out.Stdout)
	}
	for _, command := range []string{"exit 1", "kill -9 $$"} {
		if _, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"sh", "-c", command}, CPU: 100 * time.Second}); err == nil || errors.Is(err, ErrCPU) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestRunSaysHowLongItWaited(t *testing.T) {
	_, err := Run(t.Context(), Command{Argv: []string{"sleep", "1000"}, Timeout: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("it ends with %v", err)
	}
}

// TestRunDoesNotWaitForInput: what a program that has ended would have read next is not waited for,
// be it that it has ended by itself, was killed, or is not wanted any more.
func TestRunDoesNotWaitForInput(t *testing.T) {
	for _, script := range []string{"read -r _", "read -r _; exit 3", "read -r _; kill -9 $$", "read -r _; echo asked; exec sleep 1000"} {
		ctx, cancel := context.WithCancel(t.Context())
		asked, ask := io.Pipe() // which never ends
		ended := make(chan error, 1)
		go func() {
			_, err := Run(ctx, Command{Argv: []string{"sh", "-c", script}, Timeout: patience, Locks: true, Input: asked, Writer: canceler(cancel)})
			ended <- err
		}()
		if _, err := io.WriteString(ask, "question\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if (err == nil) != (script == "read -r _") {
				t.Errorf("%s: %v", script, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: it is waited for in vain", script)
		}
		cancel()
		ask.Close()
	}
	lost := errors.New("lost")
	_, err := Run(t.Context(), Command{Argv: []string{"cat"}, Timeout: patience, Input: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(lost))})
	testdir.Fails(t, "what could not be read", lost, err)
}

// canceler gives a program up as soon as it writes something.
type canceler context.CancelFunc

func (c canceler) Write(p []byte) (int, error) { c(); return len(p), nil }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRunStreamsOutput(t *testing.T) {
	var got counter
	_, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"cat"}, Input: io.LimitReader(zeros{}, 10<<20), Writer: &got})
	if err != nil || got != 10<<20 {
		t.Errorf("%d bytes arrived (%v), want 10485760", got, err)
	}
	if _, err := Run(t.Context(), Command{Timeout: patience, Argv: []string{"cat", "/dev/zero"}, Writer: closed{}}); err == nil {
		t.Error("a program goes on although nobody takes what it writes")
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A program that leaves its output to another ends with that, in time.
func TestRunEndsWhatHoldsTheOutput(t *testing.T) {
	_, err := Run(t.Context(), Command{Timeout: time.Second, Argv: []string{"sh", "-c", "sleep 1000 &"}, Writer: new(counter)})
	testdir.Fails(t, "", context.DeadlineExceeded, err)
}

func TestPagerReadsToItsEnd(t *testing.T) {
	t.Setenv("LESS", "")
	os.Unsetenv("LESS") // until the test ends
	terminal, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	testdir.Must(t, err)
	defer terminal.Close()
	show := func(out io.Writer) error {
		_, err := io.Copy(out, io.LimitReader(zeros{}, 10<<20))
		return err
	}
	if err := Pager("wc -c; echo $LESS", terminal, show); err != nil {
		t.Error(err)
	}
	if err := Pager("head -c 1 > /dev/null", terminal, show); err != nil {
		t.Errorf("a reader who leaves early: %v", err)
	}
	text, err := os.ReadFile(terminal.Name())
	if want := "10485760\nFRX\n"; err != nil || string(text) != want {
		t.Errorf("the pager wrote %q, want %q (%v)", text, want, err)
	}
	lost := errors.New("lost")
	testdir.Fails(t, "what went wrong", lost, Pager("cat", terminal, func(io.Writer) error { return lost }))
}

func TestAProgramWithLocksIsAskedToEnd(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Run(ctx, Command{Locks: true, Timeout: patience,
			Argv: []string{"sh", "-c", `trap 'rm "$0"; exit' TERM; : > "$0"; while :; do sleep 0.01; done`, lock}})
		ended <- err
	}()
	await(t, "the lock", func() bool { _, err := os.Stat(lock); return err == nil })
	cancel()
	testdir.Fails(t, "", context.Canceled, <-ended)
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}

// TestAProgramOutlivesThisProcess: unlike others, it ends by itself.
func TestAProgramOutlivesThisProcess(t *testing.T) {
	if out := os.Getenv("HOSTEXEC_OUTLIVED"); out != "" {
		_, err := Run(t.Context(), Command{Timeout: patience, Locks: true, Outlives: os.Getenv("HOSTEXEC_OUTLIVES") != "",
			Argv: []string{"sh", "-c", `read -r _ <"$0.go"; : >"$0"`, out}})
		t.Fatalf("it was to be killed meanwhile: %v", err)
	}
	for _, outlives := range []string{"", "yes"} {
		out := filepath.Join(t.TempDir(), "out")
		testdir.Must(t, unix.Mkfifo(out+".go", 0o600))
		cmd := exec.Command(os.Args[0], "-test.run=^TestAProgramOutlivesThisProcess$")
		cmd.Env = append(os.Environ(), "HOSTEXEC_OUTLIVED="+out, "HOSTEXEC_OUTLIVES="+outlives)
		testdir.Must(t, cmd.Start())
		begin, err := os.OpenFile(out+".go", os.O_WRONLY, 0) // when the program reads
		testdir.Must(t, err)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if outlives == "" {
			await(t, "the end of a program that is to end with us", func() bool {
				_, err := begin.Write([]byte("\n"))
				return errors.Is(err, unix.EPIPE)
			})
			if _, err := os.Stat(out); err == nil {
				t.Error("a program that is to end with us went on")
			}
			continue
		}
		if _, err := begin.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
		await(t, "what a program does that outlives us", func() bool { _, err := os.Stat(out); return err == nil })
		begin.Close()
	}
}

// TestAProgramThatOutlivesIsLeftItsMoment: it is neither asked to end nor killed when the context
// ends, a lock of ours is held for as long as it runs, and how it ends counts.
func TestAProgramThatOutlivesIsLeftItsMoment(t *testing.T) {
	enough := errors.New("enough")
	for status, want := range map[string]error{"0": nil, "3": enough} {
		t.Run(status, func(t *testing.T) { leftItsMoment(t, enough, status, want) })
	}
}

func leftItsMoment(t *testing.T, cause error, status string, want error) {
	out := filepath.Join(t.TempDir(), "out")
	testdir.Must(t, unix.Mkfifo(out+".go", 0o600))
	held, err := os.Create(out + ".lock")
	testdir.Must(t, err)
	testdir.Must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	letGo := Hold(held)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Run(ctx, Command{Timeout: patience, Locks: true, Outlives: true, Argv: []string{"sh", "-c", `read -r _ <"$0.go"; : >"$0"; exit $1`, out, status}})
		ended <- err
	}()
	begin, err := os.OpenFile(out+".go", os.O_WRONLY, 0) // when the program reads
	testdir.Must(t, err)
	cancel(cause)
	letGo()
	held.Close()
	other, err := os.Open(out + ".lock")
	testdir.Must(t, err)
	defer other.Close()
	testdir.Fails(t, "the lock that the program holds", unix.EWOULDBLOCK, unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, _ = begin.Write([]byte("\n"))
	begin.Close()
	if err := <-ended; !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the lock after its end: %v", err)
	}
	if _, err := os.Stat(out); err != nil {
		t.Errorf("what the program was to do: %v", err)
	}
}
