package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// lookupHost asks the host's resolver. A name with a dot is taken as it is:
// a search list would make another name of it.
func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func dialTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", addr.String())
	if err == nil && addr.Addr().IsLoopback() {
		relay.Local(conn)
	}
	return conn, err
}

// hostNetworks are the networks of the host's interfaces, its own addresses included.
func hostNetworks() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("reading the host's networks: %w", err)
	}
	var found []netip.Prefix
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil && prefix.Bits() > 0 {
			found = append(found, prefix.Masked())
		}
	}
	return found, nil
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

// localNetworks remembers the host's networks for a moment: interfaces come
// and go, but not between the connections of one page.
type localNetworks struct {
	read func() ([]netip.Prefix, error)

	mu    sync.Mutex
	until time.Time
	found []netip.Prefix
	err   error
}

const localsKept = 2 * time.Second

// classify is policy.Classify, knowing the host's own networks. When they
// can't be read, nothing is public.
func (l *localNetworks) classify(addr netip.Addr) policy.Class {
	class := policy.Classify(addr)
	if class != policy.Public {
		return class
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.After(l.until) {
		l.found, l.err = l.read()
		l.until = now.Add(localsKept)
	}
	if l.err != nil {
		return policy.OnLink
	}
	for _, network := range l.found {
		if network.Contains(addr) {
			return policy.OnLink
		}
	}
	return class
}
