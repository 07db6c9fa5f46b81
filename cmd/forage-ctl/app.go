package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
)

// app is what every command has in common: the standard streams and the
// global flags.
type app struct {
	in  *os.File
	out io.Writer
	err io.Writer

	configFile string // --config; "" looks in the usual places
	verbose    bool   // --verbose
	json       bool   // --json: logs as JSON lines, and results where a command has any
	version    bool   // --version, without a command

	line  sync.Mutex // held by what writes to stderr beside a progress line
	shown bool       // there is one

	helpErr error // of printing help, which cobra has no way to return

	// status is what a command that ran inside a sandbox returned. It becomes
	// our own exit status when nothing else went wrong.
	status int
}

// commandLine runs one forage-ctl command and returns its exit status.
func commandLine(args []string, in, out, errs *os.File) int {
	a := &app{in: in, out: out, err: errs}
	ctx, stop := withSignals(context.Background())
	defer stop()
	args = ourName(args)
	root, err := a.tree(args)
	if err == nil {
		root.SetArgs(dockerTerminal(root, args))
		err = firstError(root.ExecuteContext(ctx), a.helpErr)
	}
	// Says what went wrong, if anything did, and returns the exit status.
	code := a.report(ctx, err)
	if a.verbose {
		a.log(slog.LevelDebug).Debug("done", "status", code)
	}
	return code
}

// service opens the sandbox service with what the global flags say.
func (a *app) service() (*sandbox.Service, error) { return a.open(nil) }

// serviceAnyway is service for commands that look after sandboxes. It tells of a mistake in the
// configuration, which doesn't hinder the user from seeing and ending them.
func (a *app) serviceAnyway() (*sandbox.Service, error) {
	return a.open(func(err error) { a.note("going on without the configuration: " + err.Error()) })
}

func (a *app) open(unconfigured func(error)) (*sandbox.Service, error) {
	me, err := plan.Me()
	if err != nil {
		return nil, err
	}
	options := sandbox.Config{ConfigFile: a.configFile, Caller: me, Notify: a.note, Progress: a.told, Pulling: a.toldOf, Unconfigured: unconfigured}
	if a.verbose {
		options.Detail = func(text string) { a.log(slog.LevelDebug).Debug(text) }
	}
	service, err := sandbox.New(options)
	if err == nil && a.verbose {
		a.log(slog.LevelDebug).Debug("opened", "configuration", service.Host.Config.Files, "state", service.Host.Places.State, "runtime", service.Host.Places.Runtime)
	}
	return service, err
}

// log is where the program says what it does: stderr, from a level on unless --verbose asks for
// more.
func (a *app) log(level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if a.verbose {
		options.Level = slog.LevelDebug
	}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}

// notes tells the user on stderr what else there is to know.
func (a *app) notes(notes []string) {
	for _, note := range notes {
		a.note(note)
	}
}

func (a *app) note(note string) {
	if a.json {
		a.log(slog.LevelDebug).Warn(note)
		return
	}
	a.line.Lock()
	defer a.line.Unlock()
	a.clearLine()
	fmt.Fprintf(a.err, "note: %s\n", oneLine(note))
}

// usageError is an error in how c was called, with the way to its help.
func usageError(c *cobra.Command, format string, args ...any) error {
	err := forage.Errorf(forage.ErrUsage, "%s%w", errorPrefix(c), fmt.Errorf(format, args...))
	return forage.WithHint(err, "usage: "+c.UseLine())
}

// commandName is c's name as the user types it, without the program's; the
// root's is "".
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// errorPrefix says which command an error is about.
func errorPrefix(c *cobra.Command) string {
	if !c.HasParent() {
		return ""
	}
	return commandName(c) + ": "
}
