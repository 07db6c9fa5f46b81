package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/unixsock"
)

// Client speaks to the supervisor of the sandbox whose run-time folder is Dir.
type Client struct {
	Dir string
	Via string // see Request
}

// Status asks whether the sandbox is usable and what its tmux session is doing.
func (c Client) Status(ctx context.Context) (Response, error) {
	return c.call(ctx, Request{Op: OpStatus})
}

// End ends the sandbox; nothing of it runs when End returns.
func (c Client) End(ctx context.Context) error {
	_, err := c.call(ctx, Request{Op: OpStop})
	return err
}

// errEnded is a supervisor that closed its door on a caller.
var errEnded = errors.New("it ended without an answer")

// Closed says whether an error means that no supervisor listens, as before and after its sandbox's
// life.
func Closed(err error) bool {
	for _, closed := range []error{unix.ENOENT, unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, errEnded} {
		if errors.Is(err, closed) {
			return true
		}
	}
	return false
}

// SetNetwork replaces the live network policy.
func (c Client) SetNetwork(ctx context.Context, network forage.Network) error {
	_, err := c.call(ctx, Request{Op: OpNetwork, Network: &network})
	return err
}

// Record puts what is about to happen into the audit log; when it fails, it must not happen.
func (c Client) Record(ctx context.Context, event audit.Event) error {
	_, err := c.call(ctx, Request{Op: OpRecord, Event: &event})
	return err
}

// Opened says that the user opens a page that was asked for, or will not. When it fails, the page
// must not be opened.
func (c Client) Opened(ctx context.Context, url string, allow bool) error {
	_, err := c.call(ctx, Request{Op: OpOpened, URL: url, Allow: allow})
	return err
}

// StartWindow starts the agent's window again if it has ended.
func (c Client) StartWindow(ctx context.Context) error {
	_, err := c.call(ctx, Request{Op: OpWindow})
	return err
}

func (c Client) call(ctx context.Context, request Request) (Response, error) {
	name := filepath.Base(c.Dir)
	request.Via = c.Via
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the supervisor of "+name)
	defer cancel()
	response, err := c.ask(ctx, request)
	if errors.Is(err, context.DeadlineExceeded) { // such as one that was stopped
		err = forage.WithHint(err, "`forage-ctl stop "+name+"` ends it, and the sandbox with it")
	}
	return response, err
}

func (c Client) ask(ctx context.Context, request Request) (Response, error) {
	conn, err := unixsock.Dial(ctx, filepath.Join(c.Dir, controlName))
	if err != nil {
		return Response{}, fmt.Errorf("asking the supervisor: %w", cmp.Or(context.Cause(ctx), err))
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var response Response
	err = json.NewEncoder(conn).Encode(request)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, maxMessage)).Decode(&response)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if errors.Is(err, io.EOF) {
			err = errEnded
		}
		return Response{}, fmt.Errorf("asking the supervisor: %w", err)
	}
	return response, response.Failure.err()
}
