package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/guest/guestclient"
	"forage/internal/guest/wire"
	"forage/internal/term"
)

// channel serves one channel, to its end.
func (c *client) channel(ctx context.Context, channel ssh.NewChannel) {
	var err error
	switch kind := channel.ChannelType(); kind {
	case "session":
		c.session(ctx, channel)
	case "direct-tcpip":
		err = c.directTCP(ctx, channel)
	case "direct-streamlocal@openssh.com":
		if c.named == "" {
			err = errNameIt
		} else if err = c.allow(ctx, c.named, "forward", "unix", false); err == nil {
			err = c.forward(ctx, c.named, kind, channel.ExtraData(), channel)
		}
	default:
		channel.Reject(ssh.UnknownChannelType, "unknown channel type")
	}
	if err != nil {
		channel.Reject(ssh.ConnectionFailed, term.Escape(fmt.Sprintf("%.1000s", err)))
	}
}

var errNameIt = errors.New("which sandbox? name it before the @: NAME@host")

// directTCP connects to a server inside, on the sandbox's own loopback. Of who names no sandbox as
// user the host is the sandbox's name; its port 22 is the sandbox's SSH server (ssh -J).
func (c *client) directTCP(ctx context.Context, channel ssh.NewChannel) error {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(channel.ExtraData(), &target); err != nil {
		return err
	}
	name, jump := c.named, false
	if name == "" {
		name, jump, target.Host = target.Host, target.Port == 22, "localhost"
	}
	if err := forage.CheckName(name); err != nil {
		return err
	}
	if err := c.allow(ctx, name, "forward", fmt.Sprint(target.Port), false); err != nil {
		return err
	}
	if !jump {
		return c.forward(ctx, name, "direct-tcpip", ssh.Marshal(target), channel)
	}
	guest, err := c.server.Sandboxes.Dial(ctx, name)
	if err != nil {
		return err
	}
	accepted, requests, err := channel.Accept()
	if err != nil {
		guest.Close()
		return nil
	}
	wire.Join(accepted, requests, guest, func() { guest.Close() })
	return nil
}

// forward joins a channel with one of the same kind to the sandbox.
func (c *client) forward(ctx context.Context, name, kind string, data []byte, channel ssh.NewChannel) error {
	guest, fromGuest, err := c.open(ctx, name, kind, data)
	if err != nil {
		return err
	}
	accepted, fromClient, err := channel.Accept()
	if err != nil {
		guest.Close()
		return nil
	}
	couple(accepted, fromClient, guest, fromGuest)
	return nil
}

// maxEnd bounds what a sandbox says of a program's end, in bytes.
const maxEnd = 1 << 10

// maxSetup bounds the requests of a session before its program's: variables, mostly.
const maxSetup = 64

// session is one session channel. Which sandbox is meant is known when the program is asked for;
// what the client says before is kept until then.
func (c *client) session(ctx context.Context, channel ssh.NewChannel) {
	accepted, requests, err := channel.Accept()
	if err != nil {
		return
	}
	defer accepted.Close()
	var setup []*ssh.Request
	agent := false
	for request := range requests {
		switch request.Type {
		case "shell", "exec", "subsystem":
			if err := c.start(ctx, accepted, requests, setup, request, agent); err != nil {
				request.Reply(true, nil)
				fail(accepted, err)
			}
			return
		case "env", "pty-req":
			known := len(setup) < maxSetup
			if known {
				setup = append(setup, request)
			}
			request.Reply(known, nil)
		case "auth-agent-req@openssh.com":
			agent = true
			request.Reply(true, nil)
		default:
			request.Reply(false, nil) // X11 is not forwarded
		}
	}
}

// say tells a client what went wrong.
func say(channel ssh.Channel, err error) {
	text := term.Escape("forage-ctl: " + err.Error())
	if hint := forage.Hint(err); hint != "" {
		text += "\r\nhint: " + term.Escape(hint)
	}
	_, _ = io.WriteString(channel.Stderr(), text+"\r\n") // the client may be gone
}

// fail ends a session as a program does that could not start.
func fail(channel ssh.Channel, err error) {
	say(channel, err)
	_ = channel.CloseWrite()
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(forage.ExitCode(err))}))
}

// start starts what a session asks for, and serves it to its end.
func (c *client) start(ctx context.Context, channel ssh.Channel, requests <-chan *ssh.Request, setup []*ssh.Request, request *ssh.Request, agent bool) error {
	terminal := terminalOf(setup)
	name, kind, payload := c.named, request.Type, request.Payload
	if name == "" && kind == "exec" {
		var line struct{ Command string }
		if err := ssh.Unmarshal(payload, &line); err != nil {
			return err
		}
		var command string
		name, command, _ = strings.Cut(strings.TrimSpace(line.Command), " ")
		if command = strings.TrimPrefix(strings.TrimSpace(command), "-- "); command == "" {
			kind = "shell"
		}
		payload = ssh.Marshal(struct{ Command string }{command})
	}
	switch {
	case name == "" && kind == "subsystem":
		return forage.Errorf(forage.ErrUsage, "%w", errNameIt)
	case name == "" && kind == "shell" && terminal != nil && len(c.server.Picker) > 0 && !c.key.ReadOnly && len(c.key.Sandboxes) == 0:
		return c.pick(channel, requests, request, terminal)
	case name == "":
		return c.which(forage.Errorf(forage.ErrUsage, "which sandbox?"))
	}
	if err := forage.CheckName(name); err != nil {
		return err
	}
	attach := kind == "shell" && terminal != nil
	if kind == "shell" && terminal == nil && c.named == "" {
		return forage.WithHint(forage.Errorf(forage.ErrUsage, "the agent's session needs a terminal"), "ssh -t, or say a command: "+name+" -- COMMAND")
	}
	method := kind
	if attach {
		method, kind = "attach", wire.ExecRequest
		var err error
		if payload, err = (wire.Exec{Argv: c.server.Sandboxes.AttachCommand(c.key.ReadOnly), Terminal: terminal}).Marshal(); err != nil {
			return err
		}
	}
	if err := c.allow(ctx, name, method, "", attach); err != nil {
		return err
	}
	guest, fromGuest, err := c.open(ctx, name, "session", nil)
	if err != nil {
		return err
	}
	defer guest.Close()
	if agent {
		variable, stop, err := c.agent(ctx, name)
		if err != nil {
			say(channel, err)
		} else {
			defer stop()
			setup = append(setup, &ssh.Request{Type: "env", Payload: variable})
		}
	}
	if err := c.whyRefused(); err != nil {
		say(channel, err)
	}
	for _, r := range setup {
		if _, err := guest.SendRequest(r.Type, false, r.Payload); err != nil {
			return err
		}
	}
	if ok, err := guest.SendRequest(kind, true, payload); err != nil {
		return err
	} else if !ok {
		return forage.Errorf(forage.ErrUnsupported, "the sandbox refused the request")
	}
	request.Reply(true, nil)
	if terminal == nil {
		c.join(channel, channel, channel.Stderr(), requests, guest, fromGuest)
		return nil
	}
	screen := c.server.Sandboxes.Screen(name)
	c.join(channel, screen(channel), screen(channel.Stderr()), requests, guest, fromGuest)
	return nil
}

// terminalOf is the terminal that was asked for before a program; nil if none was.
func terminalOf(setup []*ssh.Request) *wire.Terminal {
	for _, request := range setup {
		var wanted struct {
			Term          string
			Columns, Rows uint32
			Rest          []byte `ssh:"rest"`
		}
		if request.Type == "pty-req" && ssh.Unmarshal(request.Payload, &wanted) == nil {
			return &wire.Terminal{Term: wanted.Term, Columns: wanted.Columns, Rows: wanted.Rows}
		}
	}
	return nil
}

// which is problem with what there is for the holder of the key, and nothing else.
func (c *client) which(problem error) error {
	names, err := c.server.Sandboxes.Names()
	names = slices.DeleteFunc(names, func(name string) bool { return !c.key.May(name) })
	hint := "there are none"
	if len(names) > 0 {
		hint = "ssh -t ... NAME attaches, NAME -- COMMAND runs one; there are " + strings.Join(names, ", ")
	}
	return errors.Join(forage.WithHint(problem, hint), err)
}

// join carries a client's channel to a sandbox's and back, until one of them ends. Output passes
// screen and errs on its way. What the holder of a read-only key types goes nowhere; quit ends it.
func (c *client) join(channel ssh.Channel, screen, errs io.Writer, fromClient <-chan *ssh.Request, guest ssh.Channel, fromGuest <-chan *ssh.Request) {
	go func() {
		if c.key.ReadOnly {
			quit(channel)
			guest.Close()
			return
		}
		_, _ = io.Copy(guest, channel)
		_ = guest.CloseWrite()
	}()
	go func() {
		for request := range fromClient {
			ok := false
			switch {
			case request.Type == "window-change", !c.key.ReadOnly && (request.Type == "signal" || request.Type == wire.EndOfWrite):
				ok, _ = guest.SendRequest(request.Type, request.WantReply, request.Payload)
			}
			request.Reply(ok, nil)
		}
		guest.Close() // the client has closed its channel, or is gone
	}()
	var end *ssh.Request
	var ended sync.WaitGroup
	ended.Go(func() { _, _ = io.Copy(screen, guest) })
	ended.Go(func() { _, _ = io.Copy(errs, guest.Stderr()) })
	ended.Go(func() {
		for request := range fromGuest {
			if _, ok := guestclient.ParseExit(request); ok && len(request.Payload) <= maxEnd { // clients take offence at others
				end = request
			}
			request.Reply(false, nil)
		}
	})
	ended.Wait()
	for _, out := range []io.Writer{screen, errs} {
		if controls, ok := out.(*term.Controls); ok {
			undo, _ := controls.Undo()
			_, _ = io.WriteString(controls.Out, undo)
		}
	}
	_ = channel.CloseWrite()
	if end == nil && c.key.ReadOnly {
		end = &ssh.Request{Type: "exit-status", Payload: ssh.Marshal(struct{ Code uint32 }{0})} // quit
	}
	if end != nil {
		_, _ = channel.SendRequest(end.Type, false, end.Payload)
	}
	channel.Close()
}

// quit reads keys until one of q, ^C and ^D comes, or the end.
func quit(keys io.Reader) {
	buffer := make([]byte, 256)
	for {
		n, err := keys.Read(buffer)
		if err != nil || bytes.ContainsAny(buffer[:n], "q\x03\x04") {
			return
		}
	}
}
