package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"forage"
)

// Proxy is what `forage-ctl proxy` serves.
type Proxy struct {
	Listen     []ProxyListen
	SocketMode uint32 // permission bits of unix sockets
	// Certificate, Key and ClientCA are PEM files, absolute; all are set where a listener is
	// ListenTLS.
	Certificate, Key, ClientCA string
	AuditDir                   string // absolute
	Clients                    map[string]ProxyClient
}

// ListenKind says how clients of a listener say who they are.
type ListenKind string

// The kinds of listener.
const (
	ListenTCP  ListenKind = "tcp"  // on loopback: with a token
	ListenUnix ListenKind = "unix" // with a token
	ListenTLS  ListenKind = "tls"  // with a certificate
)

// ProxyListen is one place that the proxy listens at.
type ProxyListen struct {
	Kind    ListenKind
	Address string // "127.0.0.1:3128", or an absolute path
}

func (l ProxyListen) String() string {
	if l.Kind == ListenTCP {
		return l.Address
	}
	return string(l.Kind) + ":" + l.Address
}

// ProxyClient is one whom the proxy serves. It has a token, a certificate or both; with PeerUID,
// a token alone.
type ProxyClient struct {
	Template    string
	Token       *forage.SecretSource // File, Env or Command
	Certificate string               // "URI:...", "DNS:..." or "CN:..."; "" is none
	PeerUID     *int                 // nil: anybody's
	CAFile      string               // absolute; "" is none
}

// proxy reads the table of the proxy, after the templates.
func (v converter) proxy(raw *rawProxy) {
	if raw == nil {
		return
	}
	mode, _ := strconv.ParseUint(cmp.Or(raw.SocketMode, "0600"), 8, 32)
	p := &Proxy{
		SocketMode: uint32(mode), Certificate: raw.Certificate, Key: raw.Key, ClientCA: raw.ClientCA, AuditDir: raw.AuditDir,
		Clients: map[string]ProxyClient{},
	}
	v.config.Proxy = p
	for _, text := range raw.Listen {
		listen, _ := parseListen(text)
		p.Listen = append(p.Listen, listen)
	}
	if len(raw.Listen) == 0 {
		v.wrong("proxy", `expected listen, such as ["127.0.0.1:3128"]`)
	}
	for key, text := range map[string]string{"auditDir": p.AuditDir, "certificate": p.Certificate, "key": p.Key, "clientCA": p.ClientCA} {
		if text == "" && (key == "auditDir" || p.listens(ListenTLS)) {
			v.wrong("proxy", "expected %s", key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Clients)) {
		v.proxyClient(name, raw.Clients[name])
	}
}

// listens says whether there is a listener of one of the kinds.
func (p *Proxy) listens(kinds ...ListenKind) bool {
	return slices.ContainsFunc(p.Listen, func(l ProxyListen) bool { return slices.Contains(kinds, l.Kind) })
}

// listenText is one place to listen at, with an absolute path.
func listenText(text string, in surroundings) (string, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		path, err := resolvePath(path, in)
		return "unix:" + path, err
	}
	_, err := parseListen(text)
	return text, err
}

func parseListen(text string) (ProxyListen, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return ProxyListen{ListenUnix, path}, nil
	}
	address, isTLS := strings.CutPrefix(text, "tls:")
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || at.Port() == 0 || at.Addr().Zone() != "":
		return ProxyListen{}, fmt.Errorf("%.80q: expected address:port, tls:address:port or unix:PATH", text)
	case isTLS:
		return ProxyListen{ListenTLS, at.String()}, nil
	case !at.Addr().Unmap().IsLoopback():
		return ProxyListen{}, fmt.Errorf("%.80q: tokens don't cross a network: expected an address of loopback, or \"tls:%s\" "+
			"with certificate, key and clientCA", text, at)
	}
	return ProxyListen{ListenTCP, at.String()}, nil
}

func (v converter) proxyClient(name string, raw rawProxyClient) {
	p, at := v.config.Proxy, join("proxy.clients", name)
	c := ProxyClient{Template: raw.Template, Certificate: raw.Certificate, PeerUID: raw.PeerUID, CAFile: raw.CAFile}
	v.templateName(at+".template", c.Template)
	if t := raw.Token; t != nil {
		c.Token = &forage.SecretSource{File: t.File, Env: t.Env, Command: t.Command}
		v.argv(at+".token.command", t.Command)
		if sources := count(t.File != "", t.Env != "", t.Command != nil); sources != 1 {
			v.wrong(at+".token", "expected one of file, env and command, found %d", sources)
		}
		if !p.listens(ListenTCP, ListenUnix) {
			v.wrong(at+".token", "tokens are for loopback and unix sockets, and proxy.listen has neither")
		}
	}
	if c.Certificate != "" && !p.listens(ListenTLS) {
		v.wrong(at+".certificate", "certificates are for tls listeners, and proxy.listen has none")
	}
	for other, o := range p.Clients {
		if c.Certificate != "" && o.Certificate == c.Certificate {
			v.wrong(at+".certificate", "%.80q is that of %s too", c.Certificate, other)
		}
	}
	if raw.Token == nil && raw.Certificate == "" {
		v.wrong(at, "expected token, certificate or both: without one no one is this client")
	}
	if c.PeerUID != nil && (!p.listens(ListenUnix) || raw.Token == nil) {
		v.wrong(at+".peerUid", "expected a token and a unix socket in proxy.listen: only there it is known who asks")
	}
	if c.PeerUID != nil && raw.Certificate != "" {
		v.wrong(at+".peerUid", "expected no certificate as well: it can be brought by any user, on any machine; make two clients of it")
	}
	p.Clients[name] = c
}

// count is how many are true.
func count(all ...bool) int {
	n := 0
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}
