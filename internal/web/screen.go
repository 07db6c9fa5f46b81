package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/guest/guestclient"
	"forage/internal/guest/wire"
	"forage/internal/term"
)

// Bounds of a screen, in characters and bytes, and how many there may be.
const (
	maxColumns, maxRows = 500, 200
	maxMessage          = 64 << 10
	maxScreens          = 32
)

// size is that of a terminal, in characters.
type size struct {
	Columns uint32 `json:"columns"`
	Rows    uint32 `json:"rows"`
}

func (z size) bounded(or size) size {
	if z.Columns < 2 || z.Rows < 2 {
		return or
	}
	return size{min(z.Columns, maxColumns), min(z.Rows, maxRows)}
}

// screen shows the agent's session over a WebSocket. Who has not taken it over only looks: what
// their browser sends goes nowhere, and the session keeps its size.
func (s *Server) screen(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	full := s.screens >= maxScreens
	if !full {
		s.screens++
	}
	s.mu.Unlock()
	if full {
		fail(w, http.StatusServiceUnavailable, errors.New("too many screens are open"))
		return
	}
	defer func() { s.mu.Lock(); s.screens--; s.mu.Unlock() }()
	query := r.URL.Query()
	take := query.Get("take") == "1"
	columns, _ := strconv.ParseUint(query.Get("columns"), 10, 16)
	rows, _ := strconv.ParseUint(query.Get("rows"), 10, 16)
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		return // it was answered
	}
	defer socket.CloseNow()
	socket.SetReadLimit(maxMessage)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	err = s.show(ctx, socket, name, take, size{uint32(columns), uint32(rows)}.bounded(size{80, 24}))
	said := map[string]string{"end": "the session has ended, or its sandbox"}
	if err != nil {
		said = map[string]string{"end": term.Escape(err.Error()), "hint": term.Escape(forage.Hint(err))}
	}
	if send(ctx, socket, said) == nil {
		_ = socket.Close(websocket.StatusNormalClosure, "")
	}
}

// send sends a message about the screen.
func send(ctx context.Context, socket *websocket.Conn, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deadline.Answer)
	defer cancel()
	return socket.Write(ctx, websocket.MessageText, text)
}

// show has tmux inside draw the session until it, or the browser, ends.
func (s *Server) show(ctx context.Context, socket *websocket.Conn, name string, take bool, at size) error {
	method := "board look"
	if take {
		method = "board attach"
	}
	if err := s.Sandboxes.Record(ctx, name, audit.Event{Kind: audit.Exec, Verdict: "allow", Method: method}); err != nil {
		return err
	}
	guest, err := s.Sandboxes.Connect(ctx, name)
	if err != nil {
		return err
	}
	defer guest.Close()
	defer context.AfterFunc(ctx, func() { guest.Close() })()
	if !take {
		at = sessionSize(guest).bounded(at)
	}
	if err := send(ctx, socket, at); err != nil {
		return err
	}
	channel, err := start(guest, wire.Exec{Argv: s.Sandboxes.AttachCommand(!take), Terminal: &wire.Terminal{Term: "xterm-256color", Columns: at.Columns, Rows: at.Rows}})
	if err != nil {
		return err
	}
	go func() {
		s.typed(ctx, socket, channel, take)
		guest.Close() // the browser is gone
	}()
	go func() { _, _ = io.Copy(io.Discard, channel.Stderr()) }()
	_, _ = io.Copy(s.Sandboxes.Screen(name)(toBrowser{ctx, socket}), channel)
	return nil
}

// start runs a program inside.
func start(guest *guestclient.Client, program wire.Exec) (ssh.Channel, error) {
	payload, err := program.Marshal()
	if err != nil {
		return nil, err
	}
	channel, requests, err := guest.Open("session", nil)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(requests)
	if ok, err := channel.SendRequest(wire.ExecRequest, true, payload); err != nil || !ok {
		channel.Close()
		return nil, errors.Join(forage.Errorf(forage.ErrUnsupported, "the sandbox refused the request"), err)
	}
	return channel, nil
}

// sessionSize is the size that the session has, as the sandbox says; zero if it does not.
func sessionSize(guest *guestclient.Client) (at size) {
	channel, err := start(guest, wire.Exec{Argv: []string{"tmux", "display-message", "-p", "-t", "=" + forage.SessionName + ":", "#{window_width} #{window_height} #{status}"}})
	if err != nil {
		return at
	}
	defer channel.Close()
	defer time.AfterFunc(deadline.End, func() { channel.Close() }).Stop()
	said, _ := io.ReadAll(io.LimitReader(channel, 100))
	fields := strings.Fields(string(said))
	if len(fields) != 3 {
		return at
	}
	columns, _ := strconv.ParseUint(fields[0], 10, 16)
	rows, _ := strconv.ParseUint(fields[1], 10, 16)
	if fields[2] != "off" {
		rows++
	}
	return size{uint32(columns), uint32(rows)}
}

// toBrowser is a screen in a browser. One that takes nothing any more loses it.
type toBrowser struct {
	ctx    context.Context
	socket *websocket.Conn
}

func (b toBrowser) Write(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(b.ctx, deadline.Answer)
	defer cancel()
	return len(p), b.socket.Write(ctx, websocket.MessageBinary, p)
}

// typed passes on what is typed, as binary messages, and sizes, as text.
func (s *Server) typed(ctx context.Context, socket *websocket.Conn, channel ssh.Channel, take bool) {
	for {
		kind, message, err := socket.Read(ctx)
		if err != nil {
			return
		}
		var at size
		switch {
		case !take:
		case kind == websocket.MessageBinary:
			if _, err := channel.Write(message); err != nil {
				return
			}
		case json.Unmarshal(message, &at) == nil:
			at = at.bounded(size{80, 24})
			_, _ = channel.SendRequest("window-change", false, ssh.Marshal(struct{ Columns, Rows, Width, Height uint32 }{at.Columns, at.Rows, 0, 0}))
		}
	}
}
