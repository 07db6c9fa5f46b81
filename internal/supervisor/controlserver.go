package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"forage"
	"forage/internal/accept"
	"forage/internal/deadline"
	"forage/internal/unixsock"
)

// newControlServer serves the control socket of the sandbox with the run-time folder dir. Only
// processes of this user, or root, are answered (unix(7), SO_PEERCRED).
func newControlServer(dir string, handle func(context.Context, Request) (Response, error)) (*accept.Server, error) {
	listener, err := unixsock.Listen(filepath.Join(dir, controlName))
	if err != nil {
		return nil, err
	}
	return accept.Serve(listener, func(ctx context.Context, conn net.Conn) {
		request, err := receive(conn.(*net.UnixConn))
		var response Response
		if err == nil {
			response, err = handle(ctx, request)
		}
		response.Failure = failure(err)
		conn.SetWriteDeadline(time.Now().Add(deadline.Answer))
		json.NewEncoder(conn).Encode(response) // a client that has gone needs no answer
	}), nil
}

func receive(conn *net.UnixConn) (Request, error) {
	peer, err := unixsock.Peer(conn)
	if err != nil {
		return Request{}, fmt.Errorf("asking who is calling: %w", err)
	}
	if int(peer.Uid) != os.Getuid() && peer.Uid != 0 {
		return Request{}, forage.Errorf(forage.ErrDenied, "user %d may not control this sandbox", peer.Uid)
	}
	conn.SetReadDeadline(time.Now().Add(deadline.Answer))
	decoder := json.NewDecoder(io.LimitReader(conn, maxMessage))
	decoder.DisallowUnknownFields()
	var request Request
	if err := decoder.Decode(&request); err != nil {
		return Request{}, forage.Errorf(forage.ErrUsage, "reading the request: %w", err)
	}
	return request, nil
}
