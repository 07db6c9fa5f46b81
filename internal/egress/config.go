package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/egress/tlsmitm"
	"forage/internal/policy"
)

// Config is what an Engine needs. Zero fields deny or take the host's own.
type Config struct {
	Sandbox string // name, for audit events
	// Policy decides; it may be changed later with Engine.SetPolicy. The zero Policy denies all.
	Policy policy.Policy
	// Resolve dials the address on the right ("10.0.0.7:8443") instead of the
	// name and port on the left ("git.internal:443"). It is no permission: the
	// policy still has to allow the name; it only makes its address the right one.
	Resolve map[string]netip.AddrPort
	// PrivateHosts are names, or "*.suffix", that may lead to addresses that are not public (see
	// policy.Class.Mirror).
	PrivateHosts []string
	// UpstreamProxy, if set, is the http:// proxy that dials go through, with
	// the name, so that the check of addresses is the proxy's. Destinations that Resolve
	// names, the host's own services and private literal addresses are dialled directly.
	UpstreamProxy *url.URL
	// RootCAs verify upstreams wherever the engine itself speaks TLS; nil is the host's.
	RootCAs *x509.CertPool
	// Authority vouches for the servers that the engine stands in for, to look into
	// connections; nil refuses what has to be looked into.
	Authority *tlsmitm.Authority
	// Credentials are put into requests; they may be changed later with Engine.SetCredentials.
	Credentials *credential.Set
	Account     *meter.Account // counts, and bounds; nil is without bounds
	Audit       audit.Recorder // required
	// WayOut is the command with which the user allows what was refused, for the client to tell;
	// nil tells none.
	WayOut func(Way) string
	// Lookup resolves a name on the host, after the verdict; nil is net.DefaultResolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to a checked address; nil is a net.Dialer with a timeout.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// HostNetworks are the networks that the host itself is in, whose public
	// addresses are not the internet's to the sandbox; nil asks the host's interfaces.
	HostNetworks func() ([]netip.Prefix, error)
	Now          func() time.Time // nil is time.Now
	// MaxConnections bounds the connections at one time; 0 is what the limit
	// of open files allows, at most 4096.
	MaxConnections int
	// SniffTimeout bounds the wait for what a client has to say first; 0 is deadline.Answer.
	SniffTimeout time.Duration
}

// Times and bounds that are not configured.
const (
	idleHTTP       = 90 * time.Second
	maxConnections = 4096
	headsBudget    = 16 << 20 // bytes of long heads and ClientHellos, of all connections
	filesPerFlow   = 8        // descriptors: two sockets, what dialling and pipes take, and some to spare

	// Denials beyond these are not decided faster, so that a loop inside can't
	// fill the disk with audit lines any faster either.
	denialsPerSecond = 500
	denialBurst      = 2000
)

func (c Config) withDefaults() (Config, error) {
	if c.Audit == nil {
		return Config{}, errors.New("egress: no audit log")
	}
	if c.UpstreamProxy != nil {
		if err := checkProxyURL(c.UpstreamProxy); err != nil {
			return Config{}, err
		}
	}
	if c.Lookup == nil {
		c.Lookup = lookupHost
	}
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	if c.HostNetworks == nil {
		c.HostNetworks = hostNetworks
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxConnections <= 0 {
		c.MaxConnections = ConnectionsFor(1, 0)
	}
	if c.Account == nil {
		c.Account = meter.NewAccount(forage.Traffic{}, meter.Totals{}, c.Now)
	}
	if c.SniffTimeout <= 0 {
		c.SniffTimeout = deadline.Answer
	}
	return c, nil
}

// pins are the destinations that the configuration gives an address.
type pins struct {
	addrs map[string]netip.AddrPort // by policy.Request.Authority
	names map[string]bool           // the names among them
}

func compilePins(resolve map[string]netip.AddrPort) (pins, error) {
	p := pins{addrs: make(map[string]netip.AddrPort), names: make(map[string]bool)}
	for text, addr := range resolve {
		r, err := policy.ParseAuthority(text, 0)
		if err != nil {
			return pins{}, fmt.Errorf("network.resolve %q: expected name:port: %w", text, err)
		}
		if !addr.IsValid() || addr.Port() == 0 {
			return pins{}, fmt.Errorf("network.resolve %q: expected address:port to dial", text)
		}
		p.addrs[r.Authority()] = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		p.names[r.Host] = true
	}
	return p, nil
}

// request completes r with what the configuration knows of it.
func (p pins) request(r policy.Request) policy.Request {
	if r.Port == 0 {
		r.Pinned = p.names[r.Host]
	} else {
		_, r.Pinned = p.addrs[r.Authority()]
	}
	return r
}
