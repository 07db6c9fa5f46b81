package main

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveCommand starts a web server on the host's loopback that answers every
// path with "NAME saw PATH", and puts its address into $NAME. A configuration
// file $WORK/config.toml may say ${NAME}: it is filled in.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve NAME")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(args[0] + " saw " + r.Host + r.URL.Path + "\n"))
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], strings.TrimPrefix(server.URL, "http://"))
}
