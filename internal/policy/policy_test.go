package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/policy"
)

func compile(t *testing.T, mode string, allow ...string) policy.Policy {
	t.Helper()
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkMode(mode), Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request reads "host:port" or "host" (a DNS question).
func request(t *testing.T, s string) policy.Request {
	t.Helper()
	if !strings.Contains(s, ":") {
		return policy.Request{Host: s}
	}
	r, err := policy.ParseAuthority(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDecide(t *testing.T) {
	list := []string{"example.com", "api.example.com:443", "*.cdn.example", "*.db.example:5432", "db:5432",
		"host.forage.internal:8080", "93.184.216.34", "10.0.0.7:8443", "[2606:2800:220:1::1]:443", "169.254.169.254:80",
		"BÜCHER.example:443", "_dmarc.under.example"}
	tests := []struct {
		name, mode, request string
		verdict             policy.Verdict
		rule                string
		named               bool
	}{
		{"bare host, any port", "restricted", "example.com:22", policy.Allow, "example.com", false},
		{"bare host in DNS", "restricted", "example.com", policy.Allow, "example.com", false},
		{"host and port", "restricted", "api.example.com:443", policy.Allow, "api.example.com:443", true},
		{"host and port in DNS", "restricted", "api.example.com", policy.Allow, "api.example.com:443", false},
		{"host on another port", "restricted", "api.example.com:80", policy.Deny, "default-deny", false},
		{"subdomain of an exact name", "restricted", "www.example.com:443", policy.Deny, "default-deny", false},
		{"wildcard", "restricted", "a.cdn.example:443", policy.Allow, "*.cdn.example", false},
		{"wildcard, deeper", "restricted", "a.b.cdn.example:1", policy.Allow, "*.cdn.example", false},
		{"wildcard is not its apex", "restricted", "cdn.example:443", policy.Deny, "default-deny", false},
		{"wildcard needs the dot", "restricted", "evilcdn.example:443", policy.Deny, "default-deny", false},
		{"wildcard not as a prefix", "restricted", "cdn.example.evil.com:443", policy.Deny, "default-deny", false},
		{"wildcard with port", "restricted", "a.db.example:5432", policy.Allow, "*.db.example:5432", false},
		{"wildcard on another port", "restricted", "a.db.example:5433", policy.Deny, "default-deny", false},
		{"longer name", "restricted", "example.com.evil.com:443", policy.Deny, "default-deny", false},
		{"look-alike prefix", "restricted", "notexample.com:443", policy.Deny, "default-deny", false},
		{"single label with its port", "restricted", "db:5432", policy.Allow, "db:5432", true},
		{"single label, other port", "full", "db:5433", policy.Deny, "local-name", false},
		{"single label in full", "full", "intranet:80", policy.Deny, "local-name", false},
		{"single label in DNS", "full", "intranet", policy.Deny, "local-name", false},
		{"the host", "restricted", "host.forage.internal:8080", policy.Allow, "host.forage.internal:8080", true},
		{"the host in DNS", "restricted", "host.forage.internal", policy.Allow, "host.forage.internal:8080", false},
		{"the host on another port", "full", "host.forage.internal:22", policy.Deny, "default-deny", false},
		{"a neighbour of the host's name", "full", "x.forage.internal:80", policy.Deny, "reserved-name", false},
		{"localhost", "full", "localhost:80", policy.Deny, "reserved-name", false},
		{"below localhost", "full", "a.localhost:80", policy.Deny, "reserved-name", false},
		{"unicode rule", "restricted", "xn--bcher-kva.example:443", policy.Allow, "BÜCHER.example:443", true},
		{"underscore", "restricted", "_dmarc.under.example:1", policy.Allow, "_dmarc.under.example", false},
		{"address", "restricted", "93.184.216.34:80", policy.Allow, "93.184.216.34", false},
		{"other public address", "restricted", "93.184.216.35:80", policy.Deny, "default-deny", false},
		{"v6 address and port", "restricted", "[2606:2800:220:1::1]:443", policy.Allow, "[2606:2800:220:1::1]:443", true},
		{"v6 address, other port", "restricted", "[2606:2800:220:1::1]:80", policy.Deny, "default-deny", false},
		{"private address with port", "restricted", "10.0.0.7:8443", policy.Allow, "10.0.0.7:8443", true},
		{"private address, mapped", "restricted", "[::ffff:10.0.0.7]:8443", policy.Allow, "10.0.0.7:8443", true},
		{"private address, other port", "full", "10.0.0.7:8444", policy.Deny, "private-address", false},
		{"metadata named", "restricted", "169.254.169.254:80", policy.Allow, "169.254.169.254:80", true},
		{"metadata elsewhere", "full", "169.254.169.254:81", policy.Deny, "private-address", false},
		{"public name in full", "full", "anything.net:25", policy.Allow, "network-full", false},
		{"public name in full, DNS", "full", "anything.net", policy.Allow, "network-full", false},
		{"public address in full", "full", "8.8.8.8:53", policy.Allow, "network-full", false},
		{"loopback in full", "full", "127.0.0.1:80", policy.Deny, "private-address", false},
		{"loopback as a number", "full", "2130706433:80", policy.Deny, "private-address", false},
		{"loopback in hexadecimal", "full", "0x7f.1:80", policy.Deny, "private-address", false},
		{"loopback in octal", "full", "0177.0.0.01:80", policy.Deny, "private-address", false},
		{"loopback, short", "full", "127.1:80", policy.Deny, "private-address", false},
		{"loopback, trailing dot", "full", "127.0.0.1.:80", policy.Deny, "private-address", false},
		{"loopback, full-width", "full", "１２７.０.０.１:80", policy.Deny, "private-address", false},
		{"loopback, mapped", "full", "[::ffff:7f00:1]:80", policy.Deny, "private-address", false},
		{"link-local with a zone", "full", "[fe80::1%eth0]:80", policy.Deny, "malformed", false},
		{"NAT64 of metadata", "full", "[64:ff9b::a9fe:a9fe]:80", policy.Deny, "private-address", false},
		{"none", "none", "example.com:443", policy.Deny, "network-none", false},
		{"none, address", "none", "93.184.216.34:80", policy.Deny, "network-none", false},
		{"none, DNS", "", "example.com", policy.Deny, "network-none", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := policy.Decide(compile(t, tt.mode, list...), request(t, tt.request))
			want := policy.Decision{Verdict: tt.verdict, Rule: tt.rule, Named: tt.named, Reason: got.Reason}
			if i := strings.LastIndex(tt.request, ":"); i >= 0 && tt.verdict == policy.Allow {
				want.Port = strings.HasSuffix(tt.rule, tt.request[i:])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (got.Verdict == policy.Deny) != (got.Reason != "") {
				t.Errorf("a denial, and only a denial, gives its reason: %+v", got)
			}
		})
	}
}

func TestDecideRefusesWhatItCannotJudge(t *testing.T) {
	full := compile(t, "full")
	public := netip.MustParseAddr("8.8.8.8")
	for name, r := range map[string]policy.Request{
		"nothing":             {},
		"name and address":    {Host: "a.com", Addr: public, Port: 1},
		"upper case":          {Host: "A.com", Port: 1},
		"trailing dot":        {Host: "a.com.", Port: 1},
		"address as a name":   {Host: "8.8.8.8", Port: 1},
		"number as a name":    {Host: "134744072", Port: 1},
		"address, no port":    {Addr: public},
		"mapped address":      {Addr: netip.MustParseAddr("::ffff:8.8.8.8"), Port: 1},
		"address with a zone": {Addr: netip.MustParseAddr("2606::1%1"), Port: 1},
		"NUL in a name":       {Host: "a\x00b.com", Port: 1},
	} {
		if got := policy.Decide(full, r); got.Verdict != policy.Deny || got.Rule != policy.RuleMalformed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := policy.Decide(policy.Policy{}, policy.Request{Host: "a.com", Port: 443}); got.Verdict != policy.Deny || got.Rule != policy.RuleDefaultDeny {
		t.Errorf("the zero policy: %+v", got)
	}
	pinned := policy.Request{Host: "intranet", Port: 80, Pinned: true}
	if got := policy.Decide(full, pinned); got.Verdict != policy.Allow {
		t.Errorf("a pinned single label in full: %+v", got)
	}
	if got := policy.Decide(compile(t, "restricted"), pinned); got.Verdict != policy.Deny {
		t.Errorf("pinning is not permission: %+v", got)
	}
}

func TestCheckAddr(t *testing.T) {
	p := compile(t, "restricted", "named.example:443", "bare.example", "*.wild.example:443", "10.1.1.1:443", "169.254.169.254:80")
	tests := []struct {
		host, addr string
		class      policy.Class // 0: what Classify says
		want       policy.Verdict
		rule       string
	}{
		{"bare.example:443", "93.184.216.34:443", 0, policy.Allow, "bare.example"},
		{"bare.example:443", "10.0.0.1:443", 0, policy.Deny, "private-address"},
		{"bare.example:443", "10.1.1.1:443", 0, policy.Allow, "10.1.1.1:443"},
		{"bare.example:80", "10.1.1.1:80", 0, policy.Deny, "private-address"},
		{"bare.example:443", "93.184.216.34:443", policy.OnLink, policy.Deny, "private-address"},
		{"named.example:443", "93.184.216.34:443", policy.OnLink, policy.Allow, "named.example:443"},
		{"named.example:443", "192.168.1.1:443", 0, policy.Allow, "named.example:443"},
		{"named.example:443", "100.64.0.9:443", 0, policy.Allow, "named.example:443"},
		{"named.example:443", "[fd00::7]:443", 0, policy.Allow, "named.example:443"},
		{"named.example:443", "127.0.0.1:443", 0, policy.Deny, "private-address"},
		{"named.example:443", "[::1]:443", 0, policy.Deny, "private-address"},
		{"named.example:443", "169.254.169.254:443", 0, policy.Deny, "private-address"},
		{"named.example:443", "[fd00:ec2::254]:443", 0, policy.Deny, "private-address"},
		{"named.example:443", "0.0.0.0:443", 0, policy.Deny, "private-address"},
		{"named.example:443", "198.18.0.1:443", 0, policy.Deny, "private-address"},
		{"named.example:443", "[::ffff:8.8.8.8]:443", 0, policy.Deny, "malformed"},
		{"a.wild.example:443", "192.168.1.1:443", 0, policy.Deny, "private-address"},
		{"bare.example:80", "169.254.169.254:80", 0, policy.Allow, "169.254.169.254:80"},
		{"other.example:80", "93.184.216.34:80", 0, policy.Deny, "default-deny"},
	}
	for _, tt := range tests {
		addr := netip.MustParseAddrPort(tt.addr)
		class := tt.class
		if class == 0 {
			class = policy.Classify(addr.Addr())
		}
		got := policy.CheckAddr(p, policy.Decide(p, request(t, tt.host)), addr, class)
		if got.Verdict != tt.want || got.Rule != tt.rule {
			t.Errorf("%s at %s: %+v, want %v by %q", tt.host, tt.addr, got, tt.want, tt.rule)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	tests := []struct{ entry, expected string }{
		{"", "expected host"},
		{"https://example.com", "not a URL"},
		{"example.com/path", "without a path"},
		{"10.0.0.0/8", "range of addresses"},
		{"*", `mode "full"`},
		{"*.*.example.com", "at the start"},
		{"a.*.example.com", "at the start"},
		{"ex*mple.com", "at the start"},
		{"*example.com", "at the start"},
		{"*.", "host name"},
		{"example.com:", "1 to 65535"},
		{"example.com:0", "1 to 65535"},
		{"example.com:65536", "1 to 65535"},
		{"example.com:+80", "1 to 65535"},
		{"example.com:http", "1 to 65535"},
		{"exa mple.com", "not allowed"},
		{"a..example.com", "label"},
		{strings.Repeat("a", 64) + ".com", "label"},
		{strings.Repeat("a.", 127) + "com", "at most 253"},
		{"[::1", "[v6]:port"},
		{"[2606::1]x", "[v6]:port"},
		{"[example.com]:80", "[v6]:port"},
		{"10.0.0.7", "10.0.0.7:PORT"},
		{"fd00::7", "[fd00::7]:PORT"},
		{"169.254.169.254", "169.254.169.254:PORT"},
		{"127.0.0.1:80", "host.forage.internal:PORT"},
		{"[::1]:80", "host.forage.internal:PORT"},
		{"0.0.0.0:80", "nothing can be connected"},
		{"224.0.0.1:80", "nothing can be connected"},
		{"[fe80::1%eth0]:80", "without a zone"},
		{"2130706433:80", "usual spelling"},
		{"0x08.8.8.8", "usual spelling"},
		{"8.8.8.8.", "usual spelling"},
		{"1.2.3.256", "address"},
		{"host.forage.internal", "host.forage.internal:PORT"},
		{"intranet", "intranet:PORT"},
		{"localhost:80", "host.forage.internal:PORT"},
		{"*.localhost", "host.forage.internal:PORT"},
		{"x.forage.internal:80", "host.forage.internal:PORT"},
		{"xn--a.example", "not a host name"},
	}
	for _, tt := range tests {
		_, err := policy.Compile(forage.Network{Mode: "restricted", Allow: []string{"fine.example", tt.entry}})
		if err == nil {
			t.Errorf("%q was accepted", tt.entry)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, `"`+tt.entry+`"`) || !strings.Contains(msg, tt.expected) {
			t.Errorf("%q: %q does not name the entry and %q", tt.entry, msg, tt.expected)
		}
	}
	if _, err := policy.Compile(forage.Network{Mode: "open"}); err == nil || !strings.Contains(err.Error(), "none, restricted or full") {
		t.Errorf("a mode that is none: %v", err)
	}
}
