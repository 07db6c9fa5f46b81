package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveCommand starts a web server on the host's loopback that answers every path with "NAME saw
// PATH", and puts its address into $NAME and its port into $NAME_PORT. A configuration file
// $WORK/config.toml may say ${NAME}: it is filled in.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve NAME")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unasked" { // net/http tells its default logger of such an answer
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\nunasked, with a secret")
				io.Copy(io.Discard, conn)
				conn.Close()
			}
			return
		}
		w.Write([]byte(args[0] + " saw " + r.Host + r.URL.Path + "\n"))
	}))
	ts.Defer(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	ts.Setenv(args[0], address)
	ts.Setenv(args[0]+"_PORT", address[strings.LastIndexByte(address, ':')+1:])
}

// takePortCommand listens on a port of the host's loopback. A port that was
// just given up may be busy for a moment.
func takePortCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: take-port PORT")
	}
	var listener net.Listener
	var err error
	if !waitFor(func() bool {
		listener, err = net.Listen("tcp", "127.0.0.1:"+args[0])
		return err == nil
	}) {
		ts.Fatalf("%v", err)
	}
	ts.Defer(func() { listener.Close() })
}
