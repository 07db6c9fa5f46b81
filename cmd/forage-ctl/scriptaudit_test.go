package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveModelCommand is an HTTPS server, like serve-tls, that answers every POST as a
// language model of Anthropic's that took 400 tokens in and 100 out.
func serveModelCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serve-model NAME HOST...")
	}
	const usage = `"usage":{"input_tokens":400,"output_tokens":100}`
	server, ca := tlsServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Query().Has("stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-opus-4-1\",\"usage\":{\"input_tokens\":400,\"output_tokens\":1}}}\n\n"+
				"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":100}}\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"type":"message","model":"claude-opus-4-1","content":[{"type":"text","text":"Hello"}],`+usage+"}\n")
	}), args[1:]...)
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), args[0]+".pem"), ca, 0o644))
	ts.Setenv(args[0], server.Listener.Addr().String())
}
