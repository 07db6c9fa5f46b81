package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/secrets"
)

// reload reads the configuration again. What is wrong with it is said, and
// changes nothing.
func (s *Service) reload(why string) {
	s.say(reloading())
	defer func() { s.say("READY=1\nSTATUS=" + s.summary()) }()
	loaded, err := s.options.Load()
	if err == nil && loaded.Proxy == nil {
		err = errors.New("the configuration has no [proxy] any more")
	}
	if err == nil {
		err = s.apply(loaded)
	}
	if err == nil {
		s.log.Info("reloaded", "why", why, "listen", s.addresses(), "clients", s.names())
		if err := s.record("reloaded since " + why + "; " + s.summary()); err != nil {
			s.log.Error("recording", "error", err)
		}
		return
	}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		for _, problem := range wrong.Problems {
			s.log.Error("the configuration before stays in force", "error", problem.String())
		}
	} else {
		s.log.Error("the configuration before stays in force", "error", err, "hint", forage.Hint(err))
	}
	event := audit.Event{Kind: audit.Lifecycle, Verdict: "deny", Rule: "configuration", Reason: "not reloaded: " + err.Error()}
	if err := s.audit.Record(event); err != nil {
		s.log.Error("recording", "error", err)
	}
}

// next is a configuration that is ready to be in force.
type next struct {
	who       *identities
	tls       *tlsSide
	clients   map[string]*client
	listeners map[string]net.Listener
	undo      []func() error // takes back what was made for it
}

// apply puts a configuration in force: all of it, or, with an error, nothing.
func (s *Service) apply(loaded *config.Config) error {
	if loaded.Proxy.AuditDir != s.dir {
		return forage.Errorf(forage.ErrUsage, "proxy.auditDir can't be changed while the proxy runs")
	}
	n := &next{who: &identities{}, clients: map[string]*client{}, listeners: map[string]net.Listener{}}
	if err := s.prepare(n, loaded); err != nil {
		for _, undo := range n.undo {
			err = errors.Join(err, undo())
		}
		return err
	}
	s.swap(n, loaded.Proxy.Listen)
	if err := s.files.Set(s.watched(loaded, n)); err != nil {
		s.log.Warn("not all files are watched: send SIGHUP after a change", "error", err)
	}
	return nil
}

// prepare makes everything that may fail.
func (s *Service) prepare(n *next, loaded *config.Config) (err error) {
	if n.tls, err = loadTLS(loaded.Proxy); err != nil {
		return err
	}
	for _, note := range secrets.Notes(forage.SecretSource{File: loaded.Proxy.Key}) {
		s.log.Warn(note)
	}
	var plans []plan
	for _, name := range slices.Sorted(maps.Keys(loaded.Proxy.Clients)) {
		p, err := s.planClient(loaded, name)
		if err != nil {
			return err
		}
		token, err := s.token(p.client)
		if err != nil {
			return forage.WithHint(fmt.Errorf("proxy.clients.%s.token: %w", name, err), forage.Hint(err))
		}
		if err := n.who.add(name, p.client, token); err != nil {
			return forage.Errorf(forage.ErrUsage, "%w", err)
		}
		plans = append(plans, p)
	}
	for _, p := range plans {
		if n.clients[p.name], err = s.prepareClient(n, p); err != nil {
			return forage.WithHint(fmt.Errorf("proxy.clients.%s: %w", p.name, err), forage.Hint(err))
		}
	}
	for _, at := range loaded.Proxy.Listen {
		name := at.String()
		if n.listeners[name] != nil { // it is there twice
			continue
		}
		if n.listeners[name] = s.listeners[name]; n.listeners[name] != nil { // this goroutine alone changes them
			continue
		}
		listener, err := s.listenAt(at, loaded.Proxy.SocketMode)
		if err != nil {
			return err
		}
		n.listeners[name] = listener
		n.undo = append(n.undo, func() error { closeListener(listener); return nil })
	}
	for name, c := range n.clients { // last: it is not taken back
		if before := s.clients[name]; before == nil || before.plan.client.CAFile != c.plan.client.CAFile {
			if err := publish(c.plan, c.authority); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareClient makes what a client is to be of what it is. One that has changed has another
// engine.
func (s *Service) prepareClient(n *next, p plan) (*client, error) {
	before := s.clients[p.name]
	if before == nil {
		c, err := s.newClient(p)
		if err == nil {
			n.undo = append(n.undo, c.close)
		}
		return c, err
	}
	c := *before
	c.plan = p
	if before.plan.sum != p.sum {
		engine, err := s.newEngine(&c, p)
		if err != nil {
			return nil, err
		}
		c.engine = engine
		n.undo = append(n.undo, engine.Close)
	}
	return &c, nil
}

// token reads a client's token; "" where it has none.
func (s *Service) token(c config.ProxyClient) (string, error) {
	if c.Token == nil {
		return "", nil
	}
	env := map[string]string{}
	s.takeEnv(env, *c.Token)
	for _, note := range secrets.Notes(*c.Token) {
		s.log.Warn(note)
	}
	ctx, cancel := context.WithTimeout(s.life, s.options.tokenTimeout)
	defer cancel()
	source, err := secrets.Open(ctx, *c.Token, env)
	if err != nil {
		return "", err
	}
	token, err := source.Get(ctx)
	return token.Reveal(), err
}

// swap puts in force what is ready, and ends what is not wanted any more: clients that are
// removed, and connections of those that are not what they were.
func (s *Service) swap(n *next, listen []config.ProxyListen) {
	s.mu.Lock()
	clients, listeners := s.clients, s.listeners
	s.who.Store(n.who)
	s.tls.Store(n.tls)
	s.clients, s.listeners = n.clients, n.listeners
	s.mu.Unlock()
	for _, c := range n.clients {
		c.account.SetBounds(c.plan.traffic)
	}
	for _, at := range listen {
		if listener := n.listeners[at.String()]; listeners[at.String()] != listener {
			s.running.Go(func() { s.accept(listener, at) })
		}
	}
	for name, listener := range listeners {
		if n.listeners[name] == nil {
			closeListener(listener)
		}
	}
	for name, before := range clients {
		var err error
		if now := n.clients[name]; now == nil {
			err = before.close()
		} else if now.engine != before.engine {
			err = before.engine.Close()
		}
		if err != nil {
			s.log.Error("ending what was removed", "error", err)
		}
	}
}

// watched are all the files that the configuration depends on.
func (s *Service) watched(loaded *config.Config, n *next) []string {
	files := slices.Concat(s.options.Watch, loaded.Files)
	for _, file := range []string{loaded.Proxy.Certificate, loaded.Proxy.Key, loaded.Proxy.ClientCA, loaded.Network.UpstreamCA} {
		if file != "" {
			files = append(files, file)
		}
	}
	for _, c := range n.clients {
		files = append(files, c.plan.filesOf()...)
	}
	return files
}

// tlsSide is how tls listeners speak TLS; its config is nil where there are none.
type tlsSide struct{ config *tls.Config }

// loadTLS reads the certificates of tls listeners. Clients have to bring one
// that is signed for clients. Sessions are not resumed: a client that was removed from the
// authorities could come back with an old one.
func loadTLS(p *config.Proxy) (*tlsSide, error) {
	if !slices.ContainsFunc(p.Listen, func(l config.ProxyListen) bool { return l.Kind == config.ListenTLS }) {
		return &tlsSide{}, nil
	}
	certificate, err := tls.LoadX509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return nil, forage.Errorf(forage.ErrUsage, "proxy.certificate and proxy.key: %w", err)
	}
	text, err := os.ReadFile(p.ClientCA)
	if err != nil {
		return nil, forage.Errorf(forage.ErrUsage, "proxy.clientCA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, forage.Errorf(forage.ErrUsage, "proxy.clientCA: %s holds no certificate", p.ClientCA)
	}
	return &tlsSide{&tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
	}}, nil
}

// addresses are where the service listens, as the configuration says it.
func (s *Service) addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.listeners))
}

// summary is what the service does, in a line.
func (s *Service) summary() string {
	return fmt.Sprintf("clients: %s; listening on %s", strings.Join(s.names(), ", "), strings.Join(s.addresses(), ", "))
}
