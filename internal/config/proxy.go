package config

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"forage"
)

// rawProxy is what forage-ctl proxy serves.
type rawProxy struct {
	// Where it listens: address:port on loopback, unix:PATH, tls:address:port.
	Listen []string `json:"listen,omitempty"`
	// Permissions of unix sockets, in octal. Default: 0600.
	SocketMode *string `json:"socketMode,omitempty"`
	// PEM file with the certificate that tls listeners show, and those between it and its root.
	Certificate *string `json:"certificate,omitempty"`
	// PEM file with its private key.
	Key *string `json:"key,omitempty"`
	// PEM file with the authorities that sign the certificates of clients of tls listeners.
	ClientCA *string `json:"clientCA,omitempty"`
	// Folder of the audit logs: one for each client, and the service's own.
	AuditDir *string `json:"auditDir,omitempty"`
	// Who is served, by name.
	Clients map[string]rawProxyClient `json:"clients,omitempty"`
}

// rawProxyClient is one whom the proxy serves.
type rawProxyClient struct {
	// Template whose network, rules, traffic and secrets are the client's.
	Template *string `json:"template,omitempty"`
	// Where its token is, on loopback and unix sockets.
	Token *rawProxyToken `json:"token,omitempty"`
	// Name in its certificate, on tls listeners: URI:..., DNS:... or CN:...
	Certificate *string `json:"certificate,omitempty"`
	// User that it has to run as, on the same machine; it is then served on unix sockets alone.
	PeerUID *int64 `json:"peerUid,omitempty"`
	// File to write the certificate of the client's own authority to, for it to trust.
	CAFile *string `json:"caFile,omitempty"`
}

// rawProxyToken is where a token is: in one of these.
type rawProxyToken struct {
	// Read it from this file.
	File *string `json:"file,omitempty"`
	// Read it from this variable of the proxy's environment.
	Env *string `json:"env,omitempty"`
	// Read it from the output of this command.
	Command []string `json:"command,omitempty"`
}

// Proxy is what `forage-ctl proxy` serves.
type Proxy struct {
	Listen     []ProxyListen
	SocketMode uint32 // permission bits of unix sockets
	// Certificate, Key and ClientCA are PEM files, absolute; all are set where a listener is ListenTLS.
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
	p := &Proxy{SocketMode: 0o600, Clients: map[string]ProxyClient{}}
	v.config.Proxy = p
	for i, text := range raw.Listen {
		listen, err := v.listen(text, i)
		if v.check(err, "proxy", "listen", i) {
			p.Listen = append(p.Listen, listen)
		}
	}
	if len(raw.Listen) == 0 {
		v.wrong([]any{"proxy"}, `expected listen, such as ["127.0.0.1:3128"]`)
	}
	for _, file := range []struct {
		key string
		raw *string
		to  *string
	}{
		{"certificate", raw.Certificate, &p.Certificate}, {"key", raw.Key, &p.Key},
		{"clientCA", raw.ClientCA, &p.ClientCA}, {"auditDir", raw.AuditDir, &p.AuditDir},
	} {
		if file.raw != nil {
			*file.to = v.path(*file.raw, "proxy", file.key)
		} else if file.key == "auditDir" || p.listens(ListenTLS) {
			v.wrong([]any{"proxy"}, "expected %s", file.key)
		}
	}
	if raw.SocketMode != nil {
		mode, err := strconv.ParseUint(*raw.SocketMode, 8, 32)
		if err != nil || mode > 0o777 || mode&0o600 != 0o600 {
			v.wrong([]any{"proxy", "socketMode"}, "%.80q: expected permissions in octal such as \"0660\"", *raw.SocketMode)
		}
		p.SocketMode = uint32(mode)
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Clients)) {
		v.proxyClient(name, raw.Clients[name])
	}
}

// listens says whether there is a listener of one of the kinds.
func (p *Proxy) listens(kinds ...ListenKind) bool {
	return slices.ContainsFunc(p.Listen, func(l ProxyListen) bool { return slices.Contains(kinds, l.Kind) })
}

// listen reads one place to listen at.
func (v converter) listen(text string, index int) (ProxyListen, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		base := filepath.Dir(v.root.at("proxy", "listen", index).pos.file)
		path, err := resolvePath(path, base, v.home)
		v.means("unix:"+path, "proxy", "listen", index)
		return ProxyListen{ListenUnix, path}, err
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
	at := func(key ...any) []any { return append([]any{"proxy", "clients", name}, key...) }
	p := v.config.Proxy
	v.check(forage.CheckName(name), at()...)
	var c ProxyClient
	setText(&c.Template, raw.Template)
	if _, ok := v.config.Templates[c.Template]; !ok {
		known := slices.Sorted(maps.Keys(v.config.Templates))
		where := at("template")
		if raw.Template == nil {
			where = at()
		}
		v.wrong(where, "expected a template; %.80q is none%s", c.Template, didYouMean(c.Template, known))
	}
	if raw.Token != nil {
		c.Token = v.proxyToken(*raw.Token, at)
		if !p.listens(ListenTCP, ListenUnix) {
			v.wrong(at("token"), "tokens are for loopback and unix sockets, and proxy.listen has neither")
		}
	}
	if raw.Certificate != nil {
		c.Certificate = *raw.Certificate
		v.proxyCertificate(c.Certificate, at)
	}
	if raw.Token == nil && raw.Certificate == nil {
		v.wrong(at(), "expected token, certificate or both: nobody could be this client")
	}
	if raw.PeerUID != nil {
		uid := int(*raw.PeerUID)
		c.PeerUID = &uid
		if uid < 0 || int64(uid) >= 1<<32-1 {
			v.wrong(at("peerUid"), "%d: expected a user's number", uid)
		}
		if !p.listens(ListenUnix) || raw.Token == nil {
			v.wrong(at("peerUid"), "expected a token and a unix socket in proxy.listen: only there it is known who asks")
		}
		if raw.Certificate != nil {
			v.wrong(at("peerUid"), "expected no certificate as well: whoever brings it runs as anybody, on any machine; make two clients of it")
		}
	}
	if raw.CAFile != nil {
		c.CAFile = v.path(*raw.CAFile, at("caFile")...)
	}
	p.Clients[name] = c
}

// proxyCertificate checks the name that a client's certificate has to have.
func (v converter) proxyCertificate(text string, at func(...any) []any) {
	kind, value, _ := strings.Cut(text, ":")
	if value == "" || !slices.Contains([]string{"URI", "DNS", "CN"}, kind) {
		v.wrong(at("certificate"), "%.80q: expected URI:..., DNS:... or CN:... as it is in the certificate", text)
	}
	if !v.config.Proxy.listens(ListenTLS) {
		v.wrong(at("certificate"), "certificates are for tls listeners, and proxy.listen has none")
	}
	for other, c := range v.config.Proxy.Clients {
		if c.Certificate == text {
			v.wrong(at("certificate"), "%.80q is that of %s too", text, other)
		}
	}
}

func (v converter) proxyToken(raw rawProxyToken, at func(...any) []any) *forage.SecretSource {
	s := &forage.SecretSource{Command: raw.Command}
	sources := 0
	if raw.File != nil {
		s.File = v.path(*raw.File, at("token", "file")...)
		sources++
	}
	if raw.Env != nil {
		if s.Env = *raw.Env; !isEnvName(s.Env) {
			v.wrong(at("token", "env"), "%.80q is not a variable's name", s.Env)
		}
		sources++
	}
	if raw.Command != nil {
		if len(raw.Command) == 0 || raw.Command[0] == "" {
			v.wrong(at("token", "command"), "expected a program and its arguments")
		}
		sources++
	}
	if sources != 1 {
		v.wrong(at("token"), "expected one of file, env and command, found %d", sources)
	}
	return s
}
