package jail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// folder is one of the caller's, links resolved, that others may pass through.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(testdir.Plain(t))
	testdir.Must(t, err)
	return dir
}

// output runs a command and returns what it wrote.
func output(t *testing.T, c Command) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run(t.Context())
	return out.String(), err
}

func TestProgram(t *testing.T) {
	t.Parallel()
	given, scratch := folder(t), folder(t)
	testdir.Must(t, os.WriteFile(given+"/in", []byte("in\n"), 0o600))
	c := Command{
		Args: []string{"sh", "-c", `cat in - && echo "$X" && echo made > "$1"/out && pwd && ls -A / && echo word >&2`, "sh", scratch},
		Env:  []string{"X=x y"}, Dir: given, ReadOnly: []string{given}, Writable: []string{scratch}, Stdin: strings.NewReader("stdin\n"),
	}
	out, err := output(t, c)
	if err != nil || !strings.HasPrefix(out, "in\nstdin\nx y\n"+given+"\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, entry := range []string{"home", "root", "proc", "sys", "run"} {
		if strings.Contains(out, "\n"+entry+"\n") && !strings.HasPrefix(given, "/"+entry) {
			t.Errorf("/%s is there", entry)
		}
	}
	info, err := os.Stat(scratch + "/out")
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Errorf("%v %v", info, err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	link := folder(t) + "/link"
	testdir.Must(t, os.Symlink("/usr", link))
	for _, tc := range []struct {
		name string
		c    Command
		want []string
		exit int
	}{
		{"status", Command{Args: []string{"sh", "-c", `printf 'bad \033[31mword' >&2; exit 7`}}, []string{"sh in a jail", `bad \x1b[31mword`, "exit status 7"}, 7},
		{"no program", Command{Args: []string{"no-such-program"}}, []string{"not installed"}, 0},
		{"no folder", Command{Args: []string{"true"}, ReadOnly: []string{"/no/such"}}, []string{"opening /no/such"}, 0},
		{"link", Command{Args: []string{"true"}, ReadOnly: []string{link}}, []string{"too many levels of symbolic links"}, 0},
		{"no place", Command{Args: []string{"true"}, Dir: "/no/such"}, []string{"entering /no/such"}, 0},
		{"nothing", Command{}, []string{"no name"}, 0},
	} {
		err := tc.c.Run(t.Context())
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tc.name, err, want)
			}
		}
		var exit interface{ ExitCode() int }
		if errors.As(err, &exit) && exit.ExitCode() != tc.exit {
			t.Errorf("%s: exit status %d", tc.name, exit.ExitCode())
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	scratch := folder(t)
	sh := func(script string) []string { return []string{"sh", "-c", script, "sh", scratch} }
	for _, tc := range []struct {
		name string
		c    Command
		is   error
		want string
	}{
		{"output", Command{Args: []string{"yes"}, Stdout: io.Discard, Limits: Limits{Output: 1 << 20}}, ErrOutput, ""},
		{"time", Command{Args: []string{"sleep", "1000"}, Limits: Limits{Time: 200 * time.Millisecond}}, context.DeadlineExceeded, "200ms"},
		{"CPU", Command{Args: sh("while :; do :; done"), Limits: Limits{CPU: time.Second}}, nil, "killed"},
		{"file size", Command{Args: sh(`yes > "$1"/big`), Writable: []string{scratch}, Limits: Limits{FileSize: 1 << 20}}, nil, "File size limit"},
		{"tasks", Command{Args: sh("f() { f | f; }; f"), Limits: Limits{Tasks: 50, Time: 20 * time.Second}}, nil, "fork"},
		{"memory", Command{Args: []string{"dd", "bs=8G", "count=1"}, Limits: Limits{Memory: 4 << 30}}, nil, "memory exhausted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.c.Run(t.Context())
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %v %q", err, tc.is, tc.want)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrClosed)
	testdir.Fails(t, "", os.ErrClosed, (Command{Args: []string{"sleep", "1000"}}).Run(ctx))
}

// A line for a shell does what Run does, and what it has started dies with it.
func TestShell(t *testing.T) {
	t.Parallel()
	line, err := Command{Args: []string{"sh", "-c", `cat; echo "it's $X"; exit 3`}, Env: []string{"X='x"}}.Shell()
	testdir.Must(t, err)
	cmd := exec.Command("sh", "-c", line+" '/added by git'")
	cmd.Stdin = strings.NewReader("in\n")
	out, err := cmd.Output()
	if string(out) != "in\nit's 'x\n" || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%v: %s", err, out)
	}

	line, err = Command{Args: []string{"sh", "-c", "echo; exec sleep 1000"}}.Shell()
	testdir.Must(t, err)
	read, write, err := os.Pipe()
	testdir.Must(t, err)
	defer write.Close()
	cmd = exec.Command("sh", "-c", line)
	cmd.Stdin = read
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	testdir.Must(t, err)
	read.Close()
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // it runs
		t.Error(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	// The pipe's other end is closed.
	fds := []unix.PollFd{{Fd: int32(write.Fd())}}
	if n, err := unix.Poll(fds, 60_000); n != 1 || fds[0].Revents&unix.POLLERR == 0 {
		t.Errorf("the program is still there: %d %v", n, err)
	}
}

// Git reads a repository in a jail as `git fetch` wants it.
func TestGitFetch(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "protocol.version=2", "-c", "init.defaultBranch=main", "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "from")
	git("-C", "from", "commit", "-q", "--allow-empty", "-m", "first")
	git("init", "-q", "--bare", "to")
	c := Command{Args: []string{"git", "upload-pack", dir + "/from/.git"}, Env: []string{"GIT_PROTOCOL=version=2"}, ReadOnly: []string{dir + "/from"}}
	line, err := c.Shell()
	testdir.Must(t, err)
	git("-C", "to", "fetch", "-q", "--upload-pack="+line, "file:///nowhere", "main:refs/heads/x")
	if got, want := git("-C", "to", "rev-parse", "x"), git("-C", "from", "rev-parse", "main"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
