package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"forage/internal/audit"
)

// fillAuditCommand records so much in the audit log of a sandbox that is
// stopped that the next event begins another segment.
func fillAuditCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fill-audit NAME")
	}
	path := filepath.Join(ts.Getenv("FORAGE_STATE_DIR"), "sandboxes", args[0]+".audit.jsonl")
	log, err := audit.Open(path, args[0])
	ts.Check(err)
	defer log.Close()
	long := strings.Repeat("\x7f", 1024) // of which each is six bytes in the log
	e := audit.Event{Kind: audit.Exec, Verdict: "allow", Host: long, Path: long, Rule: long, Reason: long, Secret: long, Model: long}
	for size := int64(0); size < 64<<20; {
		for range 500 {
			ts.Check(log.Record(e))
		}
		info, err := os.Stat(path)
		ts.Check(err)
		if info.Size() < size {
			return // it was begun anew already
		}
		size = info.Size()
	}
}

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
