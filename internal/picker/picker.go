// Package picker is a screen that lists sandboxes and acts on them by running this program's own
// commands. It draws rows that it is given; what they say is decided above. Text in them comes from
// inside sandboxes: it is escaped before it is drawn.
package picker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	xterm "golang.org/x/term"

	"forage/internal/hostexec"
	"forage/internal/tail"
	"forage/internal/term"
)

// Row is a sandbox as it is shown.
type Row struct {
	Name, Agent, State, Branch, Unsaved, Refused, Traffic string

	Ports string // that servers inside listen on, for the line of what is chosen
	Page  string // that a program inside asks the user to open: its host; "" is none

	Created time.Time
}

// Refusal is what a sandbox was refused, with the arguments of `network NAME` that allow it; none
// where no argument does.
type Refusal struct {
	Text  string
	Allow []string
}

// Template is what a new sandbox can be made from, and its agent, if it has one.
type Template struct {
	Name    string
	Command []string
}

// Options is what the screen shows and does.
type Options struct {
	In, Out *os.File
	Age     func(time.Duration) string
	Folder  string // a change in it may change what List says

	// List returns the sandboxes, and what there is to say about them.
	List    func(context.Context) (rows []Row, note string, err error)
	Refused func(ctx context.Context, name string) ([]Refusal, error)
	// Loses says what would be lost with the sandbox: nil is nothing.
	Loses     func(ctx context.Context, name string) error
	Templates []Template
	Default   string   // template
	Here      string   // folder of a new sandbox, unless another is typed
	Home      string   // "~" of a folder
	Global    []string // flags of every command that is run
}

// Run shows the screen until the user leaves it, or ctx ends.
func Run(ctx context.Context, o Options) error {
	watch, err := tail.WatchFolder(o.Folder)
	if err != nil {
		return err
	}
	defer watch.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what is still asked is not waited for
	m := &model{Options: o, ctx: ctx, watch: watch, width: 80, height: 24}
	m.show = func(wait bool, args ...string) tea.Cmd {
		c := &command{options: o, args: args, wait: wait}
		return tea.Exec(c, func(err error) tea.Msg { return ended{err} })
	}
	m.do = func(args ...string) (string, error) {
		out, err := hostexec.Self(slices.Concat(o.Global, args)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithFPS(60), tea.WithoutSignalHandler()).Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// command is one of this program's own commands on the terminal.
type command struct {
	options Options
	args    []string
	wait    bool // for a key at its end
}

func (c *command) SetStdin(io.Reader)  {}
func (c *command) SetStdout(io.Writer) {}
func (c *command) SetStderr(io.Writer) {}

// Run runs it. One that fails has said why: that is left to be read.
func (c *command) Run() error {
	if _, err := io.WriteString(c.options.Out, "\n"); err != nil {
		return err
	}
	cmd := hostexec.Self(slices.Concat(c.options.Global, c.args)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.options.In, c.options.Out, c.options.Out
	err := cmd.Run()
	if !c.wait && err == nil {
		return nil
	}
	if _, err := io.WriteString(c.options.Out, "\n(any key goes back to the list)\n"); err != nil {
		return err
	}
	before, err := xterm.MakeRaw(int(c.options.In.Fd()))
	if err != nil {
		return err
	}
	_, err = c.options.In.Read(make([]byte, 64))
	return errors.Join(err, xterm.Restore(int(c.options.In.Fd()), before))
}

// Plain is the list for who reads it with a voice or with fingers: lines, and a number for an
// answer.
func Plain(ctx context.Context, o Options) error {
	for {
		rows, note, err := o.List(ctx)
		if err != nil {
			return err
		}
		var text strings.Builder
		if note != "" {
			fmt.Fprintf(&text, "note: %s\n", term.Escape(note))
		}
		for i, r := range rows {
			fmt.Fprintf(&text, "%d. %s: agent %s, %s, %s old, branch %s, unsaved %s, refused %s, traffic %s\n", i+1,
				term.Escape(r.Name), term.Escape(r.Agent), term.Escape(r.State), o.Age(time.Since(r.Created)),
				term.Escape(r.Branch), r.Unsaved, r.Refused, r.Traffic)
			if r.Page != "" {
				fmt.Fprintf(&text, "   It asks to open a page of %s: forage-ctl open %s\n", term.Escape(r.Page), term.Escape(r.Name))
			}
		}
		text.WriteString("Number to attach to, Enter for the list, q to leave: ")
		if _, err := io.WriteString(o.Out, text.String()); err != nil {
			return err
		}
		answer, err := readLine(o.In)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || answer == "q" {
			return nil // the end of the input leaves too
		}
		if n, err := strconv.Atoi(answer); err == nil && n > 0 && n <= len(rows) {
			if err := (&command{options: o, args: []string{"ssh", rows[n-1].Name}}).Run(); err != nil {
				return err
			}
		}
	}
}

// readLine reads no further than the end of the line: the rest is for what is started next.
func readLine(in io.Reader) (string, error) {
	var line []byte
	for next := make([]byte, 1); ; {
		if _, err := in.Read(next); err != nil {
			return "", err
		}
		if next[0] == '\n' {
			return strings.TrimSpace(string(line)), nil
		}
		line = append(line, next[0])
	}
}
