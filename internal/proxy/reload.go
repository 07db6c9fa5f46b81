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
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/egress"
	"forage/internal/secrets"
)

// tokenTimeout bounds the reading of one token.
const tokenTimeout = 30 * time.Second

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
	plans     map[string]plan
	who       *identities
	tls       *tlsSide
	made      map[string]*client            // clients that there were not
	engines   map[string]*egress.Engine     // of clients that are not what they were
	listeners map[string]net.Listener       // new ones
	listen    map[string]config.ProxyListen // all of them
	published []func() error                // write authorities to where they are expected
}

// apply puts a configuration in force: all of it, or, with an error, nothing.
func (s *Service) apply(loaded *config.Config) error {
	if loaded.Proxy.AuditDir != s.dir {
		return forage.Errorf(forage.ErrUsage, "proxy.auditDir can't be changed while the proxy runs")
	}
	n := &next{
		plans: map[string]plan{}, made: map[string]*client{}, engines: map[string]*egress.Engine{},
		listeners: map[string]net.Listener{}, listen: map[string]config.ProxyListen{},
	}
	if err := s.prepare(n, loaded); err != nil {
		return errors.Join(err, n.discard())
	}
	removed := s.swap(n)
	for _, err := range removed {
		s.log.Error("ending what was removed", "error", err)
	}
	if err := s.files.Set(s.watched(loaded, n)); err != nil {
		s.log.Warn("not all files are watched: send SIGHUP after a change", "error", err)
	}
	return nil
}

// discard takes back what was made for a configuration that will not be.
func (n *next) discard() error {
	closeAll(n.listeners)
	var errs []error
	for _, c := range n.made {
		errs = append(errs, c.close())
	}
	for _, e := range n.engines {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// prepare makes everything that may fail.
func (s *Service) prepare(n *next, loaded *config.Config) (err error) {
	if n.tls, err = loadTLS(loaded.Proxy); err != nil {
		return err
	}
	for _, note := range secrets.Notes(forage.SecretSource{File: loaded.Proxy.Key}) {
		s.log.Warn(note)
	}
	n.who = &identities{}
	for _, name := range slices.Sorted(maps.Keys(loaded.Proxy.Clients)) {
		if n.plans[name], err = s.planClient(loaded, name); err != nil {
			return err
		}
		token, err := s.token(n.plans[name].client)
		if err != nil {
			return forage.WithHint(fmt.Errorf("proxy.clients.%s.token: %w", name, err), forage.Hint(err))
		}
		if err := n.who.add(name, n.plans[name].client, token); err != nil {
			return forage.Errorf(forage.ErrUsage, "%w", err)
		}
	}
	for name, p := range n.plans {
		if err := s.prepareClient(n, name, p); err != nil {
			return err
		}
	}
	if err := s.prepareListeners(n, loaded.Proxy); err != nil {
		return err
	}
	for _, publish := range n.published { // last: discard does not take it back
		if err := publish(); err != nil {
			return err
		}
	}
	return nil
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

func (s *Service) prepareClient(n *next, name string, p plan) (err error) {
	c := s.clients[name] // this goroutine alone changes them
	if c == nil {
		if c, err = s.newClient(p); err != nil {
			return err
		}
		n.made[name] = c
		n.published = append(n.published, func() error { return publish(p, c.authority) })
		return nil
	}
	if c.plan.client.CAFile != p.client.CAFile {
		n.published = append(n.published, func() error { return publish(p, c.authority) })
	}
	if c.plan.sum == p.sum {
		return nil
	}
	if n.engines[name], err = s.newEngine(c, p); err != nil {
		delete(n.engines, name)
		return forage.WithHint(fmt.Errorf("proxy.clients.%s: %w", name, err), forage.Hint(err))
	}
	return nil
}

func (s *Service) prepareListeners(n *next, p *config.Proxy) error {
	for _, at := range p.Listen {
		n.listen[at.String()] = at
		if s.listeners[at.String()] != nil || n.listeners[at.String()] != nil {
			continue
		}
		listener, err := s.listenAt(at, p.SocketMode)
		if err != nil {
			return err
		}
		n.listeners[at.String()] = listener
	}
	return nil
}

// swap puts in force what is ready, and ends what is not wanted any more: clients that are
// removed, and connections of those that are not what they were.
func (s *Service) swap(n *next) (errs []error) {
	var gone []*client
	var replaced []*egress.Engine
	s.mu.Lock()
	for name, c := range s.clients {
		if _, ok := n.plans[name]; !ok {
			gone = append(gone, c)
			delete(s.clients, name)
		}
	}
	for name, c := range n.made {
		s.clients[name] = c
	}
	s.who.Store(n.who) // before the policies: a former client has none
	s.tls.Store(n.tls)
	for name, c := range s.clients {
		if engine := n.engines[name]; engine != nil {
			replaced = append(replaced, c.engine)
			c.engine = engine
		}
		c.plan = n.plans[name]
		c.account.SetBounds(c.plan.traffic)
	}
	for name, listener := range s.listeners {
		if _, ok := n.listen[name]; !ok {
			closeListener(listener)
			delete(s.listeners, name)
		}
	}
	for name, listener := range n.listeners {
		s.listeners[name] = listener
		s.running.Go(func() { s.accept(listener, n.listen[name]) })
	}
	s.mu.Unlock()
	for _, e := range replaced {
		errs = append(errs, e.Close())
	}
	for _, c := range gone {
		errs = append(errs, c.close())
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// watched are all the files that the configuration depends on.
func (s *Service) watched(loaded *config.Config, n *next) []string {
	files := slices.Concat(s.options.Watch, loaded.Files)
	for _, file := range []string{loaded.Proxy.Certificate, loaded.Proxy.Key, loaded.Proxy.ClientCA, loaded.Network.UpstreamCA} {
		if file != "" {
			files = append(files, file)
		}
	}
	for _, p := range n.plans {
		files = append(files, p.filesOf()...)
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
