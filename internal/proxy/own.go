package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
)

// What the proxy answers itself, to a request for http://forage.internal/ca.pem:
// the certificate of the authority that vouches to this client, and to no other, for the servers
// whose TLS is looked into.
const (
	ownHost = "forage.internal"
	caPath  = "/ca.pem"
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
func (c *client) serveOwn(g *greeting, head sniff.Head) {
	event := audit.Event{Kind: audit.HTTP, Verdict: "allow", Host: ownHost, Port: 80, Method: head.Method, Rule: "own", Status: http.StatusOK}
	rest, _ := cutFold(head.Target, "http://"+ownHost)
	rest = strings.TrimPrefix(rest, ":80")
	isCA := rest == caPath && (head.Method == http.MethodGet || head.Method == http.MethodHead)
	if isCA {
		event.Path = caPath
	} else {
		event.Status = http.StatusNotFound
	}
	if c.log.Record(event) != nil { // what can't be recorded is not done
		relay.Reset(g.conn)
		return
	}
	if !isCA {
		g.answer(http.StatusNotFound, "there is http://"+ownHost+caPath)
		return
	}
	certificate := c.authority.PEM()
	g.conn.SetDeadline(time.Now().Add(g.s.options.headTimeout))
	fmt.Fprintf(g.conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-pem-file\r\nContent-Length: %d\r\n\r\n", len(certificate))
	if head.Method == http.MethodGet {
		g.conn.Write(certificate)
	}
	g.finish()
}
