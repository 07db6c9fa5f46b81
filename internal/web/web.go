// Package web is the board: the user's sandboxes in a browser. It serves a page, a stream of the
// list, an agent's screen, and what can be done, which it does by this program's own commands. It
// holds no state but who is logged in. It knows no records: what it shows it is given.
//
// Three attackers matter: a page of another origin in the user's browser, a client that can connect, and
// the agent, whose text is in everything that is shown. guard.go is about the first two.
package web

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/guest/guestclient"
	"forage/internal/term"
)

// Row is a sandbox as the list shows it. Agent, State, Branch and Reason may be the agent's text.
type Row struct {
	Name      string    `json:"name"`
	Agent     string    `json:"agent"`
	State     string    `json:"state"`
	Running   bool      `json:"running"`
	Reason    string    `json:"reason,omitempty"`
	Template  string    `json:"template"`
	Workspace string    `json:"workspace"`
	Mode      string    `json:"mode"`
	Branch    string    `json:"branch"`
	Unsaved   string    `json:"unsaved"` // yes, no, ? or -
	Refused   int       `json:"refused"`
	Created   time.Time `json:"created"`
	Ports     []string  `json:"ports,omitempty"` // that servers inside listen on, and what leads there
	Page      string    `json:"page,omitempty"`  // that a program inside asks the user to open, elsewhere than on localhost
}

// Refusal is what a sandbox was refused. Allow and Mode are what `network` takes to allow it.
type Refusal struct {
	Text  string `json:"text"`
	Why   string `json:"why,omitempty"` // what allows it, or why it was refused, where no argument does
	Allow string `json:"allow,omitempty"`
	Mode  string `json:"mode,omitempty"`
}

// Part is what was done in one part of a workspace.
type Part struct {
	Part    string `json:"part"`
	Content string `json:"content"` // names what was shown
	Review  any    `json:"review"`  // as `diff -o json` prints it, without changes
	Files   []File `json:"files"`   // first those to be looked at first
}

// File is one change. Texts are escaped.
type File struct {
	ID          string `json:"id"` // of this change and no other
	Name        string `json:"name"`
	What        string `json:"what"` // happened to it
	Uncommitted bool   `json:"uncommitted,omitempty"`
	Added       int    `json:"added"`
	Removed     int    `json:"removed"`
	Binary      bool   `json:"binary,omitempty"`
	Cut         bool   `json:"cut,omitempty"`       // it is longer than what Hunks have
	Divisible   bool   `json:"divisible,omitempty"` // hunks of it can be chosen
	Hunks       []Hunk `json:"hunks,omitempty"`
}

// Hunk is a place of a file. Each line begins with what happened to it: a space, - or +, or with a
// backslash where it is about the end of the file.
type Hunk struct {
	Head  string   `json:"head"`
	Lines []string `json:"lines"`
}

// Chosen is what of a part is to be applied, of what was shown.
type Chosen struct {
	Part, Content string
	Files         []ChosenFile // none: all of it
}

// ChosenFile is one change, or some of its hunks, by their places.
type ChosenFile struct {
	ID    string
	Hunks []int // none: all of it
}

// Choices are what a new sandbox can be made from.
type Choices struct {
	Templates []Template `json:"templates"`
	Default   string     `json:"default"`
	Folders   []string   `json:"folders"` // that sandboxes work on
	Home      string     `json:"home"`
}

// Template is one of them, and the command of its agent, if it has one.
type Template struct {
	Name    string   `json:"name"`
	Command []string `json:"-"`
}

// Sandboxes is what the board is about. Methods are called at once by many.
type Sandboxes interface {
	List(context.Context) (rows []Row, notes []string, err error)
	Refusals(ctx context.Context, name string) ([]Refusal, error)
	// Review brings what was done. What it brings whole counts as shown.
	Review(ctx context.Context, name string) (parts []Part, notes []string, err error)
	// Apply applies what was chosen, or says with dryRun what that does. It refuses if the work is
	// another by now.
	Apply(ctx context.Context, name string, chosen []Chosen, dryRun bool) (said string, err error)
	// Loses says what would be lost with the sandbox: "" is nothing.
	Loses(ctx context.Context, name string) (string, error)
	Choices() (Choices, error)
	// Drop puts a new file into the workspace, from inside, and says where.
	Drop(ctx context.Context, name, file string, content io.Reader) (string, error)
	// Record puts an event on a running sandbox's record. When it fails, it must not happen.
	Record(ctx context.Context, name string, event audit.Event) error
	Connect(ctx context.Context, name string) (*guestclient.Client, error)
	// Screen lets through what programs inside may do to the terminal that out is.
	Screen(name string) func(out io.Writer) *term.Controls
	AttachCommand(readOnly bool) []string
	// Run runs one of this program's commands, and returns what it printed.
	Run(args ...string) (string, error)
}

// Options is what a Server needs.
type Options struct {
	Sandboxes Sandboxes
	Folder    string // a change in it may change what List says
	Log       *slog.Logger
	// Certificate, if set, is what it shows to browsers: names of it are names of the board. Name is
	// the one to print, if it is one of them.
	Certificate *tls.Certificate
	Name        string
}

// Server is the board.
type Server struct {
	Options
	token string // logs in
	name  string // of the host, in the page's address

	mux    *http.ServeMux
	events hub

	mu       sync.Mutex
	sessions map[[32]byte]session     // by the hash of their cookie
	tried    map[string]*rate.Limiter // by address: logins with a wrong token
	screens  int
}

//go:embed static
var static embed.FS

// pages are the files that are served, to everybody: nothing of the user's is in them.
var pages = map[string]struct{ file, kind string }{
	"/{$}":             {"index.html", "text/html; charset=utf-8"},
	"/board.css":       {"board.css", "text/css; charset=utf-8"},
	"/board.js":        {"board.js", "text/javascript; charset=utf-8"},
	"/icon.svg":        {"icon.svg", "image/svg+xml"},
	"/xterm/xterm.css": {"xterm/xterm.css", "text/css; charset=utf-8"},
	"/xterm/xterm.mjs": {"xterm/xterm.mjs", "text/javascript; charset=utf-8"},
	"/xterm/LICENSE":   {"xterm/LICENSE", "text/plain; charset=utf-8"},
}

// New makes a board with a token of its own, and with a name of its own. To a browser, what was ever
// served on this port of 127.0.0.1 is another origin then: a service worker that an agent's page left
// there can't answer for the board and read the token, and cookies of such pages do not reach it.
// Browsers take names under localhost for loopback: RFC 6761, 6.3.
func New(o Options) (*Server, error) {
	s := &Server{
		Options: o, token: rand.Text() + rand.Text(), name: strings.ToLower(rand.Text()) + ".localhost",
		sessions: map[[32]byte]session{}, tried: map[string]*rate.Limiter{},
	}
	if o.Certificate != nil {
		var err error
		if s.name, err = nameOf(o.Certificate, o.Name); err != nil {
			return nil, err
		}
	}
	s.mux = http.NewServeMux()
	for path, page := range pages {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			content, err := static.ReadFile("static/" + page.file)
			if err != nil {
				http.Error(w, "not found", http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", page.kind)
			_, _ = w.Write(content)
		})
	}
	s.mux.HandleFunc("POST /api/login", s.login)
	s.mux.HandleFunc("GET /api/events", s.inside(s.follow))
	s.mux.HandleFunc("GET /api/choices", s.inside(func(w http.ResponseWriter, r *http.Request) {
		asks(func(context.Context, string) (any, error) { return o.Sandboxes.Choices() })(w, r, "")
	}))
	s.mux.HandleFunc("POST /api/sandboxes", s.inside(s.create))
	s.mux.HandleFunc("GET /api/sandboxes/{name}/screen", s.named(s.screen))
	s.mux.HandleFunc("GET /api/sandboxes/{name}/log", s.named(s.runs("logs", "--lines=500")))
	s.mux.HandleFunc("GET /api/sandboxes/{name}/refusals", s.named(asks(func(ctx context.Context, name string) (any, error) {
		all, err := o.Sandboxes.Refusals(ctx, name)
		return map[string]any{"refusals": all}, err
	})))
	s.mux.HandleFunc("GET /api/sandboxes/{name}/review", s.named(asks(func(ctx context.Context, name string) (any, error) {
		parts, notes, err := o.Sandboxes.Review(ctx, name)
		return map[string]any{"parts": parts, "notes": notes}, err
	})))
	s.mux.HandleFunc("GET /api/sandboxes/{name}/loses", s.named(asks(func(ctx context.Context, name string) (any, error) {
		loses, err := o.Sandboxes.Loses(ctx, name)
		return map[string]string{"loses": loses}, err
	})))
	s.mux.HandleFunc("POST /api/sandboxes/{name}/start", s.named(s.runs("start")))
	s.mux.HandleFunc("POST /api/sandboxes/{name}/stop", s.named(s.runs("stop")))
	s.mux.HandleFunc("POST /api/sandboxes/{name}/down", s.named(s.down))
	s.mux.HandleFunc("POST /api/sandboxes/{name}/allow", s.named(s.allow))
	s.mux.HandleFunc("POST /api/sandboxes/{name}/apply", s.named(s.apply))
	s.mux.HandleFunc("PUT /api/sandboxes/{name}/files", s.named(s.drop))
	return s, nil
}

// nameOf is the name of a certificate to print: the wanted one, or the first that is whole.
func nameOf(certificate *tls.Certificate, wanted string) (string, error) {
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return "", forage.Errorf(forage.ErrUsage, "reading the certificate: %w", err)
	}
	certificate.Leaf = leaf
	names := append([]string{wanted}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range names {
		if name != "" && !strings.Contains(name, "*") && leaf.VerifyHostname(name) == nil {
			return name, nil
		}
	}
	return "", forage.WithHint(forage.Errorf(forage.ErrUsage, "the certificate has no name that a browser could ask for"), "give it one as subjectAltName")
}

// Address is what the user opens. Browsers do not send the fragment, which has the token.
func (s *Server) Address(at net.Addr) string {
	_, port, _ := net.SplitHostPort(at.String())
	return s.scheme() + "://" + net.JoinHostPort(s.name, port) + "/#token=" + s.token
}

// Listen listens on an address. One that others can reach needs a certificate: without TLS they
// could read the cookie, and all that is shown. Without TLS it listens on all that browsers take for
// localhost: what another user has on the port of ::1 could answer in the place of the board.
func Listen(address string, certificate *tls.Certificate) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "listening: %w", err), "for example 127.0.0.1:8022")
	}
	if host != "localhost" && host != "127.0.0.1" && host != "::1" && certificate == nil {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "%s is not localhost, and without TLS others could read what is shown and the login", address),
			"--tls-cert and --tls-key; or listen on 127.0.0.1 and lead there with `ssh -L`")
	}
	if certificate != nil {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, forage.Errorf(forage.ErrNoPort, "listening for browsers: %w", err)
		}
		// HTTP/1.1 alone: a WebSocket takes over its connection.
		return []net.Listener{tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})}, nil
	}
	first, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		return nil, forage.Errorf(forage.ErrNoPort, "listening for browsers: %w", err)
	}
	_, port, _ = net.SplitHostPort(first.Addr().String())
	second, err := net.Listen("tcp6", "[::1]:"+port)
	switch {
	case err == nil:
		return []net.Listener{first, second}, nil
	case errors.Is(err, unix.EADDRINUSE):
		first.Close()
		return nil, forage.Errorf(forage.ErrNoPort, "listening for browsers, which may ask there first: %w", err)
	}
	return []net.Listener{first}, nil // there is no IPv6 here
}

// Bounds of the head of a request, in bytes, and of connections to one address. More of them wait.
const (
	maxHeader = 16 << 10
	maxConns  = 1024
)

// Serve serves until ctx ends, and all sessions with it.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: deadline.End, IdleTimeout: deadline.Answer, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	ended := make(chan error)
	for _, listener := range listeners {
		go func() { ended <- server.Serve(netutil.LimitListener(listener, maxConns)) }()
	}
	var failed error
	for range listeners {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			failed = err
		}
		server.Close()
	}
	return failed
}
