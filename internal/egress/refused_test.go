package egress

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPrivateHosts: a mirror that the user has named may have an address that is not public;
// nothing else may, and no name leads to this machine, its link or a metadata service.
func TestPrivateHosts(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.corp", "mirror.example", "other.example"), func(c *Config) {
		c.PrivateHosts = []string{"mirror.example", "*.corp"}
	})
	for name, addr := range map[string]string{"a.corp": "10.0.0.7", "mirror.example": "203.0.113.80", "other.example": "203.0.113.80"} {
		w.name(name, addr)
	}
	w.serve("10.0.0.7:22", echo)
	w.serve("203.0.113.80:22", echo)
	for authority, want := range map[string]string{
		"a.corp:22": "200", "mirror.example:22": "200", "other.example:22": "403", "b.corp:22": "403", "203.0.113.80:22": "403",
	} {
		if conn, _, status := w.connectProxy(authority); !strings.HasPrefix(status, "HTTP/1.1 "+want) {
			t.Errorf("CONNECT %s: %s, want %s", authority, status, want)
		} else {
			conn.Close()
		}
	}
	for _, addr := range []string{"127.0.0.1", "169.254.169.254", "169.254.1.1", "::1", "100.100.100.200"} {
		w.name("mirror.example", addr)
		if conn, _, status := w.connectProxy("mirror.example:23"); !strings.HasPrefix(status, "HTTP/1.1 403") {
			t.Errorf("CONNECT to %s: %s", addr, status)
		} else {
			conn.Close()
		}
	}
}

// TestRefused: what is refused is counted by destination, with what allows it, until it is
// allowed; there is an end to it.
func TestRefused(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "leads.example"), nil)
	w.name("leads.example", "10.0.0.9")
	ask := func(authority string) {
		conn, _, _ := w.connectProxy(authority)
		conn.Close()
	}
	for _, authority := range []string{"a.example:443", "a.example:443", "b.example:22", "10.0.0.7:80", "leads.example:443"} {
		ask(authority)
	}
	told := func() map[string]string {
		all := map[string]string{}
		for _, r := range w.engine.Refused() {
			all[fmt.Sprintf("%s %d", r.Host, r.Port)] = fmt.Sprintf("%d %s%s", r.Count, r.Allow, r.Private)
		}
		return all
	}
	want := map[string]string{
		"a.example 443": "2 a.example", "b.example 22": "1 b.example:22", "10.0.0.7 80": "1 10.0.0.7:80", "leads.example 443": "1 leads.example",
	}
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	w.engine.SetPolicy(mustPolicy(t, "restricted", "a.example", "leads.example"))
	delete(want, "a.example 443")
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Errorf("after a change of the policy (-want +got):\n%s", diff)
	}
}
