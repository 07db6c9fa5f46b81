package route

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage/internal/policy"
)

func addrs(texts ...string) (all []netip.AddrPort) {
	for _, text := range texts {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr(text), 443))
	}
	return all
}

func TestFamiliesTakeTurns(t *testing.T) {
	for _, test := range []struct{ found, want []netip.AddrPort }{
		{addrs("192.0.2.1"), addrs("192.0.2.1")},
		{addrs("2001:db8::1", "2001:db8::2", "192.0.2.1"), addrs("2001:db8::1", "192.0.2.1", "2001:db8::2")},
		{addrs("192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8::3"), addrs("192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8::3")},
		{addrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1", "2001:db8::2"),
			addrs("192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2", "192.0.2.3", "192.0.2.4")},
	} {
		if diff := cmp.Diff(test.want, takeTurns(test.found), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.found, diff)
		}
	}
}

// The first that is connected is taken; what comes later is closed.
func TestRace(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		after map[string]time.Duration // an address is connected; else it refuses
		want  string
	}{
		"the first":            {map[string]time.Duration{"192.0.2.1": 0}, "192.0.2.1"},
		"the first is slow":    {map[string]time.Duration{"192.0.2.1": time.Second, "192.0.2.2": 0}, "192.0.2.2"},
		"the first refuses":    {map[string]time.Duration{"192.0.2.2": 0}, "192.0.2.2"},
		"the first comes late": {map[string]time.Duration{"192.0.2.1": headStart + 1, "192.0.2.2": time.Second}, "192.0.2.1"},
		"none":                 {nil, ""},
		"this machine":         {map[string]time.Duration{"::1": 0}, "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := 0
				r := Router{Connect: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
					after, ok := test.after[addr.Addr().String()]
					if !ok {
						return nil, refused
					}
					time.Sleep(after) // without an ear for ctx: the connection comes all the same
					conn, _ := net.Pipe()
					return &counted{conn, &closed}, nil
				}}
				found := addrs("192.0.2.1", "192.0.2.2", "192.0.2.3")
				if name == "this machine" {
					found = addrs("127.0.0.1", "::1")
				}
				got := r.race(t.Context(), found)
				switch {
				case test.want == "":
					if !errors.Is(got.err, refused) {
						t.Errorf("%+v", got)
					}
				case got.err != nil || got.addr.Addr().String() != test.want:
					t.Errorf("%+v, want %s", got, test.want)
				default:
					got.conn.Close()
				}
				synctest.Wait()
				if len(test.after) != closed {
					t.Errorf("%d connections were closed, of %d", closed, len(test.after))
				}
			})
		})
	}
}

type counted struct {
	net.Conn
	closed *int
}

func (c *counted) Close() error {
	*c.closed++
	return c.Conn.Close()
}

// Every address is checked before one is dialled.
func TestDialChecksAll(t *testing.T) {
	denied := errors.New("denied")
	r := Router{
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.1")}, nil
		},
		Connect: func(context.Context, netip.AddrPort) (net.Conn, error) {
			t.Error("it is dialled")
			return nil, denied
		},
	}
	_, _, err := r.Dial(t.Context(), policy.Request{Host: "a.example", Port: 443}, func(addr netip.AddrPort) error {
		if addr.Addr().IsPrivate() {
			return denied
		}
		return nil
	})
	if err != denied {
		t.Error(err)
	}
}
