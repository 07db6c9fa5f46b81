// Package notify tells the user that an agent waits, asks for a page or has ended, or that a sandbox
// has failed. It does so on the desktop, or by a command on the host. It doesn't decide when, and passes on
// nothing that an agent wrote.
package notify

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/godbus/dbus/v5"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/secrets"
)

// What has happened.
const (
	Waiting = "waiting" // the agent has worked, and waits for its user
	Ended   = "ended"   // the agent has
	Failed  = "failed"  // the sandbox has
	Asks    = "asks"    // a program inside asks the user to open a page
)

// Event is what the user is told.
type Event struct {
	Sandbox  string
	State    string // Waiting, Ended, Failed or Asks
	ExitCode *int   // of Ended, where it is known
}

// Text is the event in a few words.
func (e Event) Text() string {
	switch {
	case e.State == Waiting:
		return "The agent waits for you."
	case e.State == Asks:
		return "A program asks you to open a web page."
	case e.State == Failed:
		return "The sandbox has failed."
	case e.ExitCode != nil:
		return fmt.Sprintf("The agent has ended with status %d.", *e.ExitCode)
	}
	return "The agent has ended."
}

// kept are variables of the user's that what notifies needs.
var kept = []string{"HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}

// Send tells the user of an event in each way that is asked for. getenv is the user's environment.
func Send(ctx context.Context, how forage.Notify, event Event, getenv func(string) string) error {
	env := map[string]string{}
	for _, name := range kept {
		if value := getenv(name); value != "" {
			env[name] = value
		}
	}
	var errs []error
	if how.Desktop {
		errs = append(errs, desktop(ctx, event, env))
	}
	if len(how.Command) > 0 {
		errs = append(errs, command(ctx, how.Command, event, env))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("notifying the user: %w", err)
	}
	return nil
}

// desktop shows the event (Desktop Notifications Specification 1.3).
func desktop(ctx context.Context, event Event, env map[string]string) error {
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the desktop")
	defer cancel()
	conn, err := secrets.SessionBus(ctx, env)
	if err != nil {
		return err
	}
	defer conn.Close()
	server := conn.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications")
	call := server.CallWithContext(ctx, "org.freedesktop.Notifications.Notify", 0,
		"forage-ctl", uint32(0), "", "Sandbox "+event.Sandbox, event.Text(), []string{}, map[string]dbus.Variant{}, int32(-1))
	if call.Err != nil {
		return errors.New("the desktop's notifications don't answer")
	}
	return nil
}

// command runs argv as it is configured; what has happened is in its environment.
func command(ctx context.Context, argv []string, event Event, env map[string]string) error {
	vars := []string{"FORAGE_SANDBOX=" + event.Sandbox, "FORAGE_STATE=" + event.State}
	if event.ExitCode != nil {
		vars = append(vars, "FORAGE_EXIT_CODE="+strconv.Itoa(*event.ExitCode))
	}
	for name, value := range env {
		vars = append(vars, name+"="+value)
	}
	_, err := hostexec.Run(ctx, hostexec.Command{Argv: argv, Env: vars})
	return err
}
