package boot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// tailSize bounds what is kept of a command's output, in bytes.
const tailSize = 6 << 10

// Result is how a command that was run to its end did.
type Result struct {
	Status unix.WaitStatus
	Output string // the end of what it wrote to stdout and stderr: untrusted text
}

// Run runs a command without input, until it ends or ctx does, which kills it. Its output goes to
// tee as well, if that is not nil.
func (t *Tree) Run(ctx context.Context, command Command, tee io.Writer) (Result, error) {
	ours, child, err := Pipe(false)
	if err != nil {
		return Result{}, err
	}
	defer ours.Close()
	command.Stdout, command.Stderr = child, child
	process, err := t.Start(command)
	child.Close()
	if err != nil {
		return Result{}, err
	}
	kill := context.AfterFunc(ctx, func() {
		process.Signal(unix.SIGKILL)
		ours.Close()
	})
	defer kill()
	kept := &tail{}
	var dst io.Writer = kept
	if tee != nil {
		dst = io.MultiWriter(kept, tee)
	}
	CopyOutput(dst, ours, process.Done())
	select {
	case <-process.Done():
	case <-ctx.Done():
		return Result{Output: kept.String()}, context.Cause(ctx)
	}
	return Result{Status: process.Status(), Output: kept.String()}, ctx.Err()
}

// Init runs shell command lines, one after the other, until one fails.
func (t *Tree) Init(ctx context.Context, lines []string, env []string, dir string, log io.Writer) error {
	for _, line := range lines {
		result, err := t.Run(ctx, Command{Argv: []string{shell, "-c", line}, Env: env, Dir: dir}, log)
		if err != nil {
			return fmt.Errorf("init command %q: %w", line, err)
		}
		if why := Describe(result.Status); why != "" {
			return fmt.Errorf("init command %q: %s%s", line, why, quoteOutput(result.Output))
		}
	}
	return nil
}

// Describe says how a program failed, "" if it did not.
func Describe(status unix.WaitStatus) string {
	switch {
	case status.Signaled():
		return "ended by " + unix.SignalName(status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	}
	return ""
}

func quoteOutput(output string) string {
	if output = strings.TrimSpace(output); output == "" {
		return ""
	}
	return ":\n" + output
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[over:]...), true
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.buf
	if t.cut { // begin with a whole line
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return strings.ToValidUTF8(string(text), string('\uFFFD'))
}
