// Package session keeps the agent in a tmux session that outlives the terminals
// attached to it, and carries what its window prints to the sandbox's log. tmux runs inside and is as
// untrusted as the agent: its answers are bounded and may be lies.
package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"forage"
	"forage/internal/guest/boot"
)

// The states of a session, as `ps` shows them.
const (
	Attached = "attached"
	Detached = "detached"
	None     = "none"
)

// The size of the windows until somebody attaches, in characters.
const (
	columns = "200"
	rows    = "50"
)

// terminfo is where descriptions of terminals may be (terminfo(5)).
var terminfo = []string{"/usr/share/terminfo", "/lib/terminfo", "/etc/terminfo"}

// Options is what a Session needs.
type Options struct {
	Tree    *boot.Tree
	Env     []string
	Dir     string
	Command []string // the agent: argv
	Log     *Log     // nil: its output goes nowhere but to its window
}

// Session is the tmux session forage.SessionName on tmux's default socket. Whoever
// asks bounds how long tmux may take, with the context.
type Session struct {
	options Options
	tmux    string
}

// New finds tmux and the agent's program, before anything is started.
func New(options Options) (*Session, error) {
	tmux, err := boot.LookPath("tmux", options.Env, options.Dir)
	if err != nil {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the root filesystem has no tmux, which the agent's session needs"),
			"install tmux on the host or in the image, or use `run`, which needs none")
	}
	if len(options.Command) == 0 {
		return nil, errors.New("no command for the agent's window")
	}
	if _, err := boot.LookPath(options.Command[0], options.Env, options.Dir); err != nil {
		return nil, forage.WithHint(fmt.Errorf("the agent: %w", err),
			"install it on the host's PATH or in the image, or name another command after --")
	}
	return &Session{options: options, tmux: tmux}, nil
}

// Start starts the session, unless the agent's window is there already. If only the
// window is missing or its program has ended, it is started again. A tmux server that
// has lost its last window takes a moment to be gone, and does nothing more then: it is waited for, as long as ctx allows.
func (s *Session) Start(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, longestWait) {
		err := s.start(ctx)
		if !errors.Is(err, errEnding) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// longestWait is the longest of the waits, each twice the one before, for a server that is ending.
const longestWait = 512 * time.Millisecond

// errEnding is that the server was about to end, so that nothing was done.
var errEnding = errors.New("the tmux server was ending")

func (s *Session) start(ctx context.Context) error {
	windows, err := s.windows(ctx)
	if err != nil {
		return err
	}
	switch {
	case windows == nil:
		return s.run(ctx, s.newSession())
	case windows[forage.WindowName] == alive:
		return nil
	case windows[forage.WindowName] == dead:
		return s.run(ctx, s.withLog([]string{"respawn-pane", "-k", "-t", agentWindow}))
	default:
		return s.run(ctx, s.newWindow())
	}
}

// State is whether the session is there and a terminal is attached to it.
func (s *Session) State(ctx context.Context) (string, error) {
	output, ok, err := s.ask(ctx, "list-sessions", "-F", "#{session_attached} #{session_name}")
	if err != nil || !ok {
		return None, err
	}
	for line := range strings.Lines(output) {
		attached, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != forage.SessionName {
			continue
		}
		if attached == "0" {
			return Detached, nil
		}
		return Attached, nil
	}
	return None, nil
}

// Whether a window's program runs.
const (
	alive = "0"
	dead  = "1"
)

// windows are the session's windows by name; nil if there is no session.
func (s *Session) windows(ctx context.Context) (map[string]string, error) {
	output, ok, err := s.ask(ctx, "list-panes", "-s", "-t", "="+forage.SessionName, "-F", "#{pane_dead} #{window_name}")
	if err != nil || !ok {
		return nil, err
	}
	windows := make(map[string]string)
	for line := range strings.Lines(output) {
		state, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if windows[name] != alive {
			windows[name] = state
		}
	}
	return windows, nil
}

const agentWindow = "=" + forage.SessionName + ":=" + forage.WindowName

func (s *Session) newSession() []string {
	args := []string{"set-option", "-g", "history-limit", "20000", ";"}
	if hasTerminal("tmux-256color") {
		args = append(args, "set-option", "-g", "default-terminal", "tmux-256color", ";")
	}
	// Whatever the image's tmux.conf says, the agent's window is number 0.
	args = append(args, "set-option", "-g", "base-index", "0", ";",
		"new-session", "-d", "-s", forage.SessionName, "-n", forage.WindowName, "-x", columns, "-y", rows,
		"-c", escapeFormat(s.options.Dir), "--")
	return s.withLog(append(args, windowArguments(s.options.Command)...))
}

func (s *Session) newWindow() []string {
	args := []string{"new-window", "-d", "-t", "=" + forage.SessionName + ":", "-n", forage.WindowName,
		"-c", escapeFormat(s.options.Dir), "--"}
	return s.withLog(append(args, windowArguments(s.options.Command)...))
}

// withLog adds the command that copies the window's output to the log. tmux runs both
// before it reads what the agent printed, so that nothing is missed.
func (s *Session) withLog(args []string) []string {
	if s.options.Log == nil {
		return args
	}
	return append(args, ";", "pipe-pane", "-t", agentWindow, "exec cat >"+s.options.Log.Path())
}

func (s *Session) run(ctx context.Context, args []string) error {
	output, ok, err := s.ask(ctx, args...)
	if err != nil {
		return err
	}
	if !ok && strings.Contains(output, "server exited") { // tmux(1)'s client, cut off before an answer
		return fmt.Errorf("%w: %s", errEnding, strings.TrimSpace(output))
	}
	if !ok {
		return fmt.Errorf("tmux: %s", strings.TrimSpace(output))
	}
	return nil
}

// ask runs tmux and reports whether it succeeded.
func (s *Session) ask(ctx context.Context, args ...string) (output string, ok bool, err error) {
	result, err := s.options.Tree.Run(ctx, boot.Command{
		Argv: append([]string{"tmux"}, args...), Path: s.tmux, Env: s.options.Env, Dir: s.options.Dir,
	}, nil)
	if err != nil {
		return "", false, fmt.Errorf("asking tmux: %w", err)
	}
	return result.Output, boot.Describe(result.Status) == "", nil
}

func hasTerminal(name string) bool {
	for _, folder := range terminfo {
		if _, err := os.Stat(folder + "/" + name[:1] + "/" + name); err == nil {
			return true
		}
	}
	return false
}
