// Package session keeps the agent in a tmux session that outlives the terminals attached to it, and
// carries what its window prints to the sandbox's log. tmux runs inside and is as untrusted as the
// agent: its answers are bounded and may be lies.
package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/agent"
	"forage/internal/guest/boot"
)

// The states of a session, as `ps` shows them.
const (
	Attached = "attached"
	Detached = "detached"
	None     = "none"
)

// The size of the windows until a client attaches, in characters.
const (
	columns = "200"
	rows    = "50"
)

// Options is what a Session needs.
type Options struct {
	Tree    *boot.Tree
	Env     []string
	Dir     string
	Command []string // the agent: argv
	Log     *Log     // nil: its output goes nowhere but to its window
}

// Session is the tmux session forage.SessionName on tmux's default socket. The context bounds how
// long tmux may take.
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

// Start starts the session, unless the agent's window is there already. If only the window is
// missing or its program has ended, it is started again. A tmux server that has lost its last
// window takes a moment to be gone, and does nothing more then: it is waited for, as long as ctx
// allows.
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
	windows, _, err := s.windows(ctx)
	if err != nil {
		return err
	}
	window, there := windows[forage.WindowName]
	switch {
	case windows == nil:
		return s.run(ctx, s.newSession())
	case there && window.dead:
		return s.run(ctx, s.withLog([]string{"respawn-pane", "-k", "-t", agentWindow}))
	case there:
		return nil
	default:
		return s.run(ctx, s.newWindow())
	}
}

// State is how a session is, as far as tmux says.
type State struct {
	Session string // Attached, Detached or None
	Ended   bool   // the agent's program has, or its window is gone
	Status  *int   // with which exit status; nil where tmux doesn't know it
}

// State is whether the session is there and a terminal is attached to it, and whether the agent
// runs.
func (s *Session) State(ctx context.Context) (State, error) {
	windows, attached, err := s.windows(ctx)
	if err != nil || windows == nil {
		return State{Session: None, Ended: err == nil}, err
	}
	state := State{Session: Detached}
	if attached {
		state.Session = Attached
	}
	window, there := windows[forage.WindowName]
	state.Ended, state.Status = !there || window.dead, window.status
	return state, nil
}

// window is what tmux says of a window's program.
type window struct {
	dead   bool
	status *int
}

// paneFormat is a line about a pane (tmux(1), "Formats").
const paneFormat = "#{pane_dead},#{pane_dead_status},#{pane_dead_signal},#{session_attached},#{pid},#{window_name}"

// windows are the session's windows by name; nil if there is no session.
func (s *Session) windows(ctx context.Context) (windows map[string]window, attached bool, err error) {
	output, ok, err := s.ask(ctx, "list-panes", "-s", "-t", "="+forage.SessionName, "-F", paneFormat)
	if err != nil || !ok {
		return nil, false, err
	}
	windows = make(map[string]window)
	for line := range strings.Lines(output) {
		fields := strings.SplitN(strings.TrimSpace(line), ",", strings.Count(paneFormat, ",")+1)
		if len(fields) < 6 {
			continue
		}
		attached = attached || fields[3] != "0"
		name := fields[5]
		if known, there := windows[name]; there && !known.dead {
			continue // one of its panes is alive
		}
		w := window{dead: fields[0] == "1"}
		if status, err := strconv.Atoi(fields[1]); err == nil && w.dead {
			w.status = &status
		} else if signal, err := strconv.Atoi(fields[2]); err == nil && w.dead {
			status := 128 + signal
			w.status = &status
		} else if server, err := strconv.Atoi(fields[4]); err == nil && w.dead && server > 1 {
			// A busy tmux misses the end of a child now and then: this makes it look again.
			_ = unix.Kill(server, unix.SIGCHLD)
		}
		windows[name] = w
	}
	return windows, attached, nil
}

const agentWindow = "=" + forage.SessionName + ":=" + forage.WindowName

func (s *Session) newSession() []string {
	args := []string{"set-option", "-g", "history-limit", "20000", ";"}
	if boot.HasTerminal("tmux-256color", s.options.Env) {
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

// endedFormat is what the window of an agent that has ended says (tmux(1), remain-on-exit-format).
const endedFormat = "The agent has ended: #{?pane_dead_status,status #{pane_dead_status},signal #{pane_dead_signal}}. " +
	"#{prefix} d detaches; forage-ctl start #{FORAGE_SANDBOX} starts it again."

// withLog adds the commands that keep the window readable when the agent has ended, and copy its
// output to the log. tmux runs them before it reads what the agent printed, so that nothing is
// missed. That the agent has ended, and each size of the window, is written to the log too: as a
// command of ours, and as XTWINOPS 8 (xterm's ctlseqs).
func (s *Session) withLog(args []string) []string {
	args = append(args, ";", "set-option", "-w", "-t", agentWindow, "remain-on-exit", "on",
		";", "set-option", "-q", "-w", "-t", agentWindow, "remain-on-exit-format", endedFormat)
	if s.options.Log == nil {
		return args
	}
	path := s.options.Log.Path()
	hook := func(name, text string) []string {
		return []string{";", "set-option", "-q", "-w", "-t", agentWindow, name, `run-shell -b "printf '` + text + `' >` + path + `"`}
	}
	args = append(args, hook("pane-died", `\\033]`+agent.EndedOSC+`;\\007`)...)
	args = append(args, hook("window-resized", `\\033[8;#{window_height};#{window_width}t`)...)
	return append(args, ";", "pipe-pane", "-t", agentWindow, "exec cat >"+path)
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
