package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"forage/internal/policy"
)

func TestCanonical(t *testing.T) {
	long := strings.Repeat("a.", 126) + "a" // 253
	for in, want := range map[string]string{
		"example.com":            "example.com",
		"EXAMPLE.Com.":           "example.com",
		"bücher.example":         "xn--bcher-kva.example",
		"BÜCHER.example":         "xn--bcher-kva.example",
		"XN--BCHER-KVA.example.": "xn--bcher-kva.example",
		"faß.de":                 "xn--fa-hia.de",
		"ｅｘａｍｐｌｅ．ｃｏｍ":            "example.com",
		"example。com":            "example.com",
		"_sip._tcp.example":      "_sip._tcp.example",
		"r3---sn-x.example":      "r3---sn-x.example",
		"a-.example":             "a-.example",
		"1.2.3.4.in-addr.arpa":   "1.2.3.4.in-addr.arpa",
		"4chan.org":              "4chan.org",
		long:                     long,
		long + ".":               long,
	} {
		if got, err := policy.Canonical(in); err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "..", "a..b", ".a", "a..", "a b", "a\tb", "a\x00", "a\nb", "a/b", "a:b", "a%2eb", "a@b", "[a]", "a,b", `a"b`, "a\\b",
		"\xff\xfe", "a\u202eb.com", "a\u200bb\u2028.com", "аррӏе\x00.com", "xn--", "xn--a", "xn--example-.com", "xn--0.com", "127.0.0.1", "1.1", "0x7f.1", "a.0x", "a.1", "host.0x7f", "4294967296",
		long + "a", strings.Repeat("a", 64), strings.Repeat("é", 300), strings.Repeat("a", 1<<20)} {
		if got, err := policy.Canonical(in); err == nil {
			t.Errorf("Canonical(%.60q) = %q, want an error", in, got)
		}
	}
	// A look-alike is another name: Cyrillic а is not a.
	if got, err := policy.Canonical("аpple.com"); err != nil || got == "apple.com" {
		t.Errorf("look-alike: %q, %v", got, err)
	}
}

func TestParseHost(t *testing.T) {
	addrs := map[string]string{
		"127.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "0x7f.0.0.1": "127.0.0.1", "0X7F000001": "127.0.0.1",
		"2130706433": "127.0.0.1", "017700000001": "127.0.0.1", "0177.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1",
		"1.2.3": "1.2.0.3", "0": "0.0.0.0", "0x": "0.0.0.0", "::1": "::1", "[::1]": "::1", "::ffff:127.0.0.1": "127.0.0.1",
		"[::ffff:7f00:1]": "127.0.0.1", "::FFFF:127.0.0.1": "127.0.0.1", "fe80::1%eth0": "fe80::1%eth0",
		"１２７．０．０．１": "127.0.0.1", "①②⑦.0.0.1": "127.0.0.1", "127。0。0。1": "127.0.0.1", "０x7f.1": "127.0.0.1",
	}
	for in, want := range addrs {
		host, addr, err := policy.ParseHost(in)
		if err != nil || host != "" || addr.String() != want {
			t.Errorf("ParseHost(%q) = %q, %v, %v, want %s", in, host, addr, err, want)
		}
	}
	for _, in := range []string{"", "[", "[]", "[127.0.0.1]", "[example.com]", "[::1]x", "[::1", "::1]", "1.2.3.4.5", "1.2.3.256", "08.1.1.1", "256.1", "1..1", "::g", "1_0.0.0.1", "+1"} {
		if host, addr, err := policy.ParseHost(in); err == nil {
			t.Errorf("ParseHost(%q) = %q, %v, want an error", in, host, addr)
		}
	}
	if host, addr, err := policy.ParseHost("EXAMPLE.com."); host != "example.com" || addr.IsValid() || err != nil {
		t.Errorf("%q, %v, %v", host, addr, err)
	}
}

func TestParseAuthority(t *testing.T) {
	for in, want := range map[string]policy.Request{
		"example.com":     {Host: "example.com", Port: 80},
		"Example.com:443": {Host: "example.com", Port: 443},
		"[::1]":           {Addr: netip.MustParseAddr("::1"), Port: 80},
		"[2606::1]:8443":  {Addr: netip.MustParseAddr("2606::1"), Port: 8443},
		"0x7f000001:1":    {Addr: netip.MustParseAddr("127.0.0.1"), Port: 1},
	} {
		if got, err := policy.ParseAuthority(in, 80); err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ":80", "a:", "a:0", "a:65536", "a:80:80", "::1:80", "a b:80", "u@a:80", "[::1]80", "[::1]:", "a:8_0", "a:-1", "a:000080"} {
		if got, err := policy.ParseAuthority(in, 80); err == nil {
			t.Errorf("%q was read as %+v", in, got)
		}
	}
	if _, err := policy.ParseAuthority("example.com", 0); err == nil {
		t.Error("a missing port was accepted")
	}
}

func TestClassify(t *testing.T) {
	for class, addrs := range map[policy.Class][]string{
		policy.Public: {"8.8.8.8", "172.32.0.1", "172.15.255.255", "100.63.255.255", "100.128.0.0", "198.20.0.1", "198.17.255.255",
			"223.255.255.255", "2606:4700::1", "2a00::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "169.253.0.1"},
		policy.Private:       {"10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1", "fec0::1", "64:ff9b::a00:1", "::ffff:10.0.0.1"},
		policy.Shared:        {"100.64.0.0", "100.127.255.255"},
		policy.Loopback:      {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"},
		policy.LinkLocal:     {"169.254.0.1", "fe80::1", "febf::1", "fe80::1%eth0"},
		policy.Metadata:      {"169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "64:ff9b::a9fe:a9fe", "::ffff:169.254.169.254", "169.254.170.2"},
		policy.Multicast:     {"224.0.0.1", "239.255.255.255", "ff02::1"},
		policy.Unspecified:   {"0.0.0.0", "0.1.2.3", "::"},
		policy.Benchmark:     {"198.18.0.1", "198.19.255.255", "2001:2::1"},
		policy.Documentation: {"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"},
		policy.Transition:    {"2002:7f00:1::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::7f00:2", "::ffff:0:7f00:1", "64:ff9b:1::1", "2606::5efe:7f00:1", "2606::200:5efe:a00:1", "192.88.99.1"},
		policy.Reserved:      {"240.0.0.1", "255.255.255.255", "192.0.0.1", "4000::1", "100::1", "2001:20::1", "5f00::1"},
	} {
		for _, s := range addrs {
			if got := policy.Classify(netip.MustParseAddr(s)); got != class {
				t.Errorf("%s is %v, want %v", s, got, class)
			}
		}
	}
	if got := policy.Classify(netip.Addr{}); got == policy.Public {
		t.Error("the zero address is public")
	}
}

// FuzzParseHost: whatever is accepted is stable, and a name is never what a
// resolver could take for an address.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"example.com", "127.1", "[::1]", "xn--bcher-kva.example", "１２７.0.0.1", "a_b.c", "0x7f.1", "ẞ.de"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, addr, err := policy.ParseHost(s)
		if err != nil {
			return
		}
		if (host == "") != addr.IsValid() {
			t.Fatalf("%q is %q and %v", s, host, addr)
		}
		if addr.IsValid() {
			if addr.Is4In6() {
				t.Fatalf("%q is mapped: %v", s, addr)
			}
			return
		}
		if again, err := policy.Canonical(host); err != nil || again != host {
			t.Fatalf("%q became %q, then %q, %v", s, host, again, err)
		}
		if addr, ok := policy.ParseAddr(host); ok {
			t.Fatalf("%q became the name %q, which is the address %v", s, host, addr)
		}
	})
}
