package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/egress/route"
	"forage/internal/egress/tally"
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
	// Open is told of the address of a page that a program inside asks the user to open; its error is
	// the answer. nil takes none.
	Open func(address string) error
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
		if err := route.CheckProxy(c.UpstreamProxy); err != nil {
			return Config{}, err
		}
	}
	if c.Lookup == nil {
		c.Lookup = route.Lookup
	}
	if c.Dial == nil {
		c.Dial = route.Connect
	}
	if c.HostNetworks == nil {
		c.HostNetworks = route.HostNetworks
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

// ConnectionsFor is how many connections each of so many engines in this process may have, so
// that none takes the open files of another. So many of those that the process may have open are
// for something else.
func ConnectionsFor(engines, elsewhere int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 64
	}
	files := int(min(limit.Cur, 1<<20)) - elsewhere
	return min(max(files/filesPerFlow/engines, 16), maxConnections)
}

// What others know of the package tally.
type (
	HostTraffic = tally.HostTraffic
	Refused     = tally.Refused
	Way         = tally.Way
)

// OtherHosts is tally.OtherHosts.
const OtherHosts = tally.OtherHosts
