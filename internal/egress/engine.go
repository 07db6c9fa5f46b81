// Package egress is the only way out of a sandbox. Every byte that leaves
// passes through one Engine on the host: it answers DNS with synthetic
// addresses, judges each connection by name, records the decision and only then
// resolves, checks and dials. It holds no policy of its own.
package egress

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"time"

	"forage/internal/audit"
	"forage/internal/policy"
)

// Config is what an Engine needs. Zero fields deny or take the host's own.
type Config struct {
	Sandbox string // name, for audit events
	// Policy decides; it may be changed later with Engine.SetPolicy. The zero Policy denies all.
	Policy policy.Policy
	// Resolve dials the address on the right ("10.0.0.7:8443") instead of the
	// name and port on the left ("git.internal:443").
	Resolve map[string]netip.AddrPort
	// UpstreamProxy, if set, is the http:// proxy that every dial goes through.
	UpstreamProxy *url.URL
	// RootCAs verify upstreams wherever the engine itself speaks TLS; nil is the host's.
	RootCAs *x509.CertPool
	Audit   audit.Recorder // required
	// Lookup resolves a name on the host, after the verdict; nil is net.DefaultResolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to a checked address; nil is a net.Dialer with a timeout.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	Now  func() time.Time // nil is time.Now
}
