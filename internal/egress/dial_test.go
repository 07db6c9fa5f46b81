package egress

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"forage/internal/audit"
	"forage/internal/policy"
)

// A hostile resolver's answers are checked, every one, and only what was checked is dialled.
func TestAnswersAreChecked(t *testing.T) {
	p := mustPolicy(t, "restricted", "bare.example", "named.example:22", "*.wild.example:22", "10.0.0.9:22", "169.254.169.254:80")
	for _, tt := range []struct {
		host    string
		answers []string
		local   string // a network of the host
		allowed bool
	}{
		{"bare.example", []string{public}, "", true},
		{"bare.example", []string{"::ffff:" + public}, "", true},
		{"bare.example", []string{"10.0.0.1"}, "", false},
		{"bare.example", []string{"10.0.0.9"}, "", true},
		{"bare.example", []string{"127.0.0.1"}, "", false},
		{"bare.example", []string{"::1"}, "", false},
		{"bare.example", []string{"::ffff:127.0.0.1"}, "", false},
		{"bare.example", []string{"0.0.0.0"}, "", false},
		{"bare.example", []string{"169.254.169.254"}, "", false},
		{"bare.example", []string{"198.18.0.1"}, "", false},
		{"bare.example", []string{"fe80::1%eth0"}, "", false},
		{"bare.example", []string{public + "", "192.168.1.1"}, "", false},
		{"bare.example", []string{"192.168.1.1", public}, "", false},
		{"bare.example", []string{public, "::1"}, "", false},
		{"bare.example", []string{"64:ff9b::7f00:1"}, "", false},
		{"bare.example", []string{public}, "93.184.216.0/24", false},
		{"bare.example", []string{public}, public + "/32", false},
		{"named.example", []string{public}, "93.184.216.0/24", true},
		{"named.example", []string{"192.168.1.1"}, "", true},
		{"named.example", []string{"fd00::1"}, "", true},
		{"named.example", []string{"127.0.0.1"}, "", false},
		{"named.example", []string{"169.254.169.254"}, "", false},
		{"named.example", []string{"198.18.0.1"}, "", false},
		{"a.wild.example", []string{"192.168.1.1"}, "", false},
		{"a.wild.example", []string{public}, "", true},
	} {
		w := newWorld(t, p, func(c *Config) {
			c.HostNetworks = func() ([]netip.Prefix, error) {
				if tt.local == "" {
					return nil, nil
				}
				return []netip.Prefix{netip.MustParsePrefix(tt.local)}, nil
			}
		})
		w.name(tt.host, tt.answers...)
		for _, answer := range tt.answers {
			if addr := netip.MustParseAddr(answer); addr.Zone() == "" {
				w.serve(netip.AddrPortFrom(addr.Unmap(), 22).String(), echo)
			}
		}
		conn := w.toName(tt.host, 22)
		if tt.allowed {
			expectLine(t, bufio.NewReader(conn), "hello\n")
			continue
		}
		expectReset(t, conn)
		if _, dials := w.seen(); len(dials) > 0 {
			t.Errorf("%s at %v: dialled %v", tt.host, tt.answers, dials)
		}
		rule := policy.RulePrivate
		if strings.Contains(tt.answers[0], "%") {
			rule = policy.RuleMalformed
		}
		if e := w.denied(rule); !strings.Contains(e.Reason, tt.host) {
			t.Errorf("%s at %v: %+v", tt.host, tt.answers, e)
		}
	}
}

// When the host's networks are not known, nothing is public.
func TestUnknownHostNetworks(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) {
		c.HostNetworks = func() ([]netip.Prefix, error) { return nil, errors.New("no netlink") }
	})
	w.name("a.example", public)
	expectReset(t, w.toName("a.example", 22))
	w.denied(policy.RulePrivate)
}

// A name that changes its address between two connections gets nowhere else
// than where the check was.
func TestRebinding(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.serve(public+":22", echo)
	w.serve("127.0.0.1:22", echo)
	for i := range 6 {
		if i%2 == 0 {
			w.name("rebind.example", public)
			expectLine(t, bufio.NewReader(w.toName("rebind.example", 22)), "hello\n")
		} else {
			w.name("rebind.example", "127.0.0.1")
			expectReset(t, w.toName("rebind.example", 22))
		}
	}
	lookups, dials := w.seen()
	if len(lookups) != 6 || len(dials) != 3 {
		t.Errorf("looked up %v, dialled %v", lookups, dials)
	}
}

func TestResolveAndHost(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "git.internal", "pinned.example:22", "host.forage.internal:5432"), func(c *Config) {
		c.Resolve = map[string]netip.AddrPort{
			"GIT.internal.:22": netip.MustParseAddrPort("10.0.0.7:2222"),
			"other.example:22": netip.MustParseAddrPort("10.0.0.7:2222"),
		}
	})
	w.serve("10.0.0.7:2222", echo)
	expectLine(t, bufio.NewReader(w.toName("git.internal", 22)), "hello\n")
	if m := w.ask("other.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("what is resolved is not thereby allowed: %v", m.RCode)
	}
	// The host's own services, by name and port alone, over either family.
	conn := w.toName("host.forage.internal", 5432)
	expectReset(t, conn)
	w.serve("[::1]:5432", echo)
	expectLine(t, bufio.NewReader(w.toName("host.forage.internal", 5432)), "hello\n")
	w.serve("127.0.0.1:5432", echo)
	expectLine(t, bufio.NewReader(w.toName("host.forage.internal", 5432)), "hello\n")
	expectReset(t, w.toName("host.forage.internal", 22))
	if lookups, _ := w.seen(); len(lookups) > 0 {
		t.Errorf("looked up %v", lookups)
	}
}

func TestFailedDialResets(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("refused.example", public)
	expectReset(t, w.toName("refused.example", 22))
	expectReset(t, w.toName("unknown.example", 22))
	e := w.log.wait(t, "of the failure", func(e audit.Event) bool { return strings.Contains(e.Reason, "connection refused") })
	if e.Verdict != "allow" || e.Host != "refused.example" {
		t.Errorf("%+v", e)
	}
}

// A dead address does not keep a name from being reached.
func TestDeadAddress(t *testing.T) {
	dead, tried := netip.MustParseAddrPort("[2606:4700::1]:22"), make(chan struct{})
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			if addr == dead {
				close(tried)
				return dial(ctx, addr)
			}
			select { // whatever the scheduler makes of its head start
			case <-tried:
				return dial(ctx, addr)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	w.name("two.example", "2606:4700::1", "2606:4700::2", public)
	w.servers[dead] = "" // silent
	w.serve(public+":22", echo)
	expectLine(t, bufio.NewReader(w.toName("two.example", 22)), "hello\n")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timedOut {
		t.Error("the dead address was waited for")
	}
}
