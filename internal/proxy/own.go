package proxy

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
)

// What the proxy answers itself, below http://forage.internal: the certificate of
// the authority that vouches to this client, and to no other, for the servers whose TLS is looked
// into; and, for a shell, the variables that its programs expect a key in, with placeholders.
const (
	ownHost = "forage.internal"
	caPath  = "/ca.pem"
	envPath = "/env"
)

// isOwn says whether the target of a request is the proxy itself.
func isOwn(target string) bool {
	path, ok := cutFold(target, "http://"+ownHost)
	if rest, port := strings.CutPrefix(path, ":80"); port {
		path = rest
	}
	return ok && (path == "" || path[0] == '/' || path[0] == '?')
}

func cutFold(text, prefix string) (rest string, ok bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

// serveOwn answers a request for the proxy itself, and ends the connection.
func (c *client) serveOwn(g *greeting, head sniff.Head, inside map[string]string) {
	path, _ := cutFold(head.Target, "http://"+ownHost)
	path = strings.TrimPrefix(path, ":80")
	var content []byte
	kind := "text/plain; charset=utf-8"
	switch {
	case head.Method != http.MethodGet && head.Method != http.MethodHead:
	case path == caPath:
		content, kind = c.authority.PEM(), "application/x-pem-file"
	case path == envPath:
		content = exports(inside)
	}
	event := audit.Event{Kind: audit.HTTP, Verdict: "allow", Host: ownHost, Port: 80, Method: head.Method, Rule: "own", Status: http.StatusOK}
	event.Path, _, _ = strings.Cut(path, "?")
	if content == nil {
		event.Status = http.StatusNotFound
	}
	if c.log.Record(event) != nil { // what can't be recorded is not done
		relay.Reset(g.conn)
		return
	}
	if content == nil {
		g.answer(http.StatusNotFound, "there is "+ownHost+caPath+" and "+ownHost+envPath)
		return
	}
	g.conn.SetDeadline(time.Now().Add(g.s.options.headTimeout))
	fmt.Fprintf(g.conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", kind, len(content))
	if head.Method == http.MethodGet {
		g.conn.Write(content)
	}
	g.finish()
}

// exports are variables as a shell sets them; not nil.
func exports(env map[string]string) []byte {
	text := []byte{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		text = fmt.Appendf(text, "export %s='%s'\n", name, strings.ReplaceAll(env[name], "'", `'\''`))
	}
	return text
}
