package sandbox

import (
	"context"
	"io"
	"net"
	"slices"

	"forage"
	"forage/internal/audit"
	"forage/internal/guest/guestclient"
	"forage/internal/supervisor"
	"forage/internal/term"
)

// Gateway is the user's sandboxes as the gateway reaches them.
type Gateway struct{ of *Service }

// Gateway is the sandboxes for the gateway.
func (s *Service) Gateway() Gateway { return Gateway{s} }

// Names are the sandboxes whose records can be read; the error names the others.
func (g Gateway) Names() ([]string, error) { return g.of.Names() }

// Record puts an event on a running sandbox's record. When it fails, it must not happen.
func (g Gateway) Record(ctx context.Context, name string, event audit.Event) error {
	if _, err := g.of.running(name); err != nil {
		return err
	}
	return g.of.client(name).Record(ctx, event)
}

// Connect logs in to a running sandbox's SSH server.
func (g Gateway) Connect(ctx context.Context, name string) (*guestclient.Client, error) {
	record, err := g.of.running(name)
	if err != nil {
		return nil, err
	}
	return g.of.connect(ctx, record)
}

// Dial connects to it, for who logs in there with a key of their own.
func (g Gateway) Dial(ctx context.Context, name string) (net.Conn, error) {
	if _, err := g.of.running(name); err != nil {
		return nil, err
	}
	return guestclient.DialSSH(ctx, supervisor.SSHSocket(g.of.Host.Places.Of(name).Dir))
}

// Screen lets through what programs inside may do to the terminal that out is.
func (g Gateway) Screen(name string) func(out io.Writer) *term.Controls {
	record, _ := g.of.Host.Store.Load(name) // one that is gone may do nothing
	clipboard, title := terminalOf(record.Plan)
	return func(out io.Writer) *term.Controls {
		return &term.Controls{Out: out, Clipboard: clipboard, Title: title}
	}
}

// Forwards says whether clients may have that forwarded from inside to them; see
// forage.Plan.SSHForward.
func (g Gateway) Forwards(name, what string) bool {
	record, _ := g.of.Host.Store.Load(name) // from one that is gone nothing
	return slices.Contains(record.Plan.SSHForward, what)
}

// terminalOf is what programs inside may do to a terminal beside writing on its screen.
func terminalOf(plan forage.Plan) (clipboard, title bool) {
	return slices.Contains(plan.Terminal, "clipboard"), slices.Contains(plan.Terminal, "title")
}

// record puts an event on a sandbox's record if it runs. When it fails, it must not happen.
func (s *Service) record(ctx context.Context, name string, event audit.Event) error {
	if !s.Host.Alive(name) {
		return nil
	}
	return s.client(name).Record(ctx, event)
}

// AttachCommand is the program inside that shows the agent's session. Who may only look does not
// change its size.
func (g Gateway) AttachCommand(readOnly bool) []string {
	if readOnly {
		return []string{"tmux", "attach-session", "-f", "read-only,ignore-size", "-t", "=" + forage.SessionName}
	}
	return []string{"tmux", "attach-session", "-t", "=" + forage.SessionName, ";", "display-message", detachNote}
}
