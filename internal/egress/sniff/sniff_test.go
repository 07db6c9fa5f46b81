package sniff

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// realHello is a ClientHello as crypto/tls makes it.
func realHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() {
		tls.Client(client, config).Handshake()
		client.Close()
	}()
	var header [5]byte
	if _, err := io.ReadFull(server, header[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(header[:], body...)
}

// extension is one extension of a ClientHello.
func extension(kind uint16, body string) string {
	b := binary.BigEndian.AppendUint16(nil, kind)
	return string(binary.BigEndian.AppendUint16(b, uint16(len(body)))) + body
}

func serverName(names ...string) string {
	list := ""
	for _, name := range names {
		list += "\x00" + string(binary.BigEndian.AppendUint16(nil, uint16(len(name)))) + name
	}
	return extension(0, string(binary.BigEndian.AppendUint16(nil, uint16(len(list))))+list)
}

// madeHello is a ClientHello in one record, with the given extensions.
func madeHello(extensions ...string) []byte {
	all := strings.Join(extensions, "")
	body := "\x03\x03" + strings.Repeat("r", 32) + "\x00" + "\x00\x02\x13\x01" + "\x01\x00" + string(binary.BigEndian.AppendUint16(nil, uint16(len(all)))) + all
	return record("\x01" + string([]byte{byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}) + body)
}

func record(fragment string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{22, 3, 1}, uint16(len(fragment))), fragment...)
}

// split puts a message that is in one record into records of n bytes.
func split(hello []byte, n int) []byte {
	var out []byte
	for body := hello[5:]; len(body) > 0; {
		k := min(n, len(body))
		out = append(out, record(string(body[:k]))...)
		body = body[k:]
	}
	return out
}

func TestReadHello(t *testing.T) {
	plain := realHello(t, &tls.Config{ServerName: "api.example.com"})
	long := madeHello(serverName("a.example"), extension(21, strings.Repeat("p", 20000)))
	tests := []struct {
		name string
		wire []byte
		want Hello
	}{
		{"real", plain, Hello{ServerName: "api.example.com"}},
		{"real, TLS 1.2", realHello(t, &tls.Config{ServerName: "api.example.com", MaxVersion: tls.VersionTLS12}), Hello{ServerName: "api.example.com"}},
		{"real, without name", realHello(t, &tls.Config{InsecureSkipVerify: true}), Hello{}},
		{"made", madeHello(serverName("a.example")), Hello{ServerName: "a.example"}},
		{"the name last", madeHello(extension(10, "\x00\x02\x00\x1d"), serverName("a.example")), Hello{ServerName: "a.example"}},
		{"records of one byte", split(plain, 1), Hello{ServerName: "api.example.com"}},
		{"records of 100 bytes", split(plain, 100), Hello{ServerName: "api.example.com"}},
		{"long", split(long, 1<<14), Hello{ServerName: "a.example"}},
		{"bytes after it", append(bytes.Clone(plain), "early data"...), Hello{ServerName: "api.example.com"}},
		{"ECH", madeHello(serverName("outer.example"), extension(0xfe0d, "\x00secret")), Hello{ServerName: "outer.example", Encrypted: true}},
		{"ESNI", madeHello(extension(0xffce, "secret")), Hello{Encrypted: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once":        bytes.NewReader(tt.wire),
				"byte by byte":   iotest.OneByteReader(bytes.NewReader(tt.wire)),
				"with the error": iotest.DataErrReader(bytes.NewReader(tt.wire)),
			} {
				h, wire, err := ReadHello(r, nil)
				rest, _ := io.ReadAll(r)
				if diff := cmp.Diff(tt.want, h); diff != "" || err != nil {
					t.Errorf("%s: %v\n%s", how, err, diff)
				}
				if !bytes.Equal(append(bytes.Clone(wire), rest...), tt.wire) {
					t.Errorf("%s: bytes were lost", how)
				}
			}
			h, wire, err := ReadHello(strings.NewReader(""), tt.wire)
			if h != tt.want || !bytes.Equal(wire, tt.wire) || err != nil {
				t.Errorf("as a prefix: %+v, %v", h, err)
			}
		})
	}
}

func TestReadHelloRefuses(t *testing.T) {
	plain := madeHello(serverName("a.example"))
	inner := plain[5:]
	change := func(at int, b byte) []byte {
		c := bytes.Clone(plain)
		c[at] = b
		return c
	}
	for name, wire := range map[string][]byte{
		"HTTP":                      []byte("GET / HTTP/1.1\r\n\r\n"),
		"SSH":                       []byte("SSH-2.0-x\r\n"),
		"SSL 2":                     {0x80, 0x2e, 1, 0, 2},
		"an alert first":            append([]byte{21, 3, 1, 0, 2, 1, 0}, plain...),
		"a change of cipher first":  append([]byte{20, 3, 1, 0, 1, 1}, plain...),
		"another version":           change(1, 2),
		"a ServerHello":             change(5, 2),
		"an empty record":           append([]byte{22, 3, 1, 0, 0}, plain...),
		"a record too long":         {22, 3, 1, 0x40, 1},
		"an alert between":          append(append(record(string(inner[:20])), 21, 3, 1, 0, 2, 1, 0), record(string(inner[20:]))...),
		"a message too long":        record("\x01\x01\x00\x00"),
		"a second message with it":  record(string(inner) + string(inner)),
		"two names":                 madeHello(serverName("a.example", "b.example")),
		"the extension twice":       madeHello(serverName("a.example"), serverName("b.example")),
		"an empty name":             madeHello(serverName("")),
		"an empty list":             madeHello(extension(0, "\x00\x00")),
		"an empty extension":        madeHello(extension(0, "")),
		"a name of another type":    madeHello(extension(0, "\x00\x04\x01\x00\x01a")),
		"bytes after the list":      madeHello(extension(0, "\x00\x04\x00\x00\x01aX")),
		"extensions cut":            madeHello("\x00\x00\x00\x05abc"),
		"bytes after extensions":    record("\x01\x00\x00\x2c\x03\x03" + strings.Repeat("r", 32) + "\x00\x00\x02\x13\x01\x01\x00" + "\x00\x00X"),
		"a session id out of range": change(5+4+34, 0xff),
	} {
		_, _, err := ReadHello(bytes.NewReader(wire), nil)
		var refused *Error
		if !errors.As(err, &refused) || refused.Rule != "not-tls" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := ReadHello(bytes.NewReader(plain[:30]), nil); err != io.EOF {
		t.Errorf("cut short: %v", err)
	}
	endless := io.MultiReader(bytes.NewReader(split(record("\x01\x00\x7f\xf0"+strings.Repeat("x", 32752)), 1)), strings.NewReader("x"))
	if _, wire, err := ReadHello(endless, nil); err == nil || len(wire) > 2*maxHelloWire {
		t.Errorf("%d bytes read, %v", len(wire), err)
	}
}

func TestReadServerStart(t *testing.T) {
	hello := func(random string) string {
		body := "\x03\x03" + random + "\x00\x13\x01\x00"
		return string(record("\x02\x00\x00" + string(rune(len(body))) + body))
	}
	other := strings.Repeat("r", 32)
	for _, tt := range []struct {
		name, wire string
		retry, bad bool
	}{
		{"a ServerHello", hello(other) + "more", false, false},
		{"one that asks again", hello(string(retryRandom)) + "more", true, false},
		{"an alert", "\x15\x03\x03\x00\x02\x02\x28", false, false},
		{"no TLS", "HTTP/1.1 400 Bad Request\r\n", false, false},
		{"another message", string(record("\x0b\x00\x00\x01x")), false, true},
		{"tiny records", string(split([]byte(hello(string(retryRandom))), 1)), false, true},
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(tt.wire), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.wire))} {
			retry, wire, err := ReadServerStart(r)
			rest, _ := io.ReadAll(r)
			if retry != tt.retry || string(wire)+string(rest) != tt.wire || (err != nil) != tt.bad && tt.name != "another message" {
				t.Errorf("%s, %s: %v, %v", tt.name, how, retry, err)
			}
		}
	}
	if _, _, err := ReadServerStart(strings.NewReader(hello(other)[:20])); err != io.EOF {
		t.Errorf("cut short: %v", err)
	}
}

func TestReadSecondHello(t *testing.T) {
	hello := string(madeHello(serverName("a.example")))
	change, early := "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\x00\x05early"
	for _, before := range []string{"", change, early + early + change} {
		h, wire, err := ReadSecondHello(strings.NewReader(before + hello))
		if h.ServerName != "a.example" || string(wire) != before+hello || err != nil {
			t.Errorf("after %q: %+v, %v", before, h, err)
		}
	}
	for name, wire := range map[string]string{
		"an alert":        "\x15\x03\x03\x00\x02\x02\x28",
		"much early data": strings.Repeat("\x17\x03\x03\x40\x00"+strings.Repeat("x", 1<<14), 10) + hello,
		"cut":             early[:7],
		"nothing":         "",
	} {
		if _, _, err := ReadSecondHello(strings.NewReader(wire)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReadProxyHeader(t *testing.T) {
	v4 := string(proxySignature) + "\x21\x11\x00\x0c" + "\x7f\x00\x00\x01\xc6\x12\x00\x07\x10\x00\x01\xbb"
	v6 := string(proxySignature) + "\x21\x21\x00\x24" + strings.Repeat("\x00", 15) + "\x01" + "\x20\x01\x00\x02" + strings.Repeat("\x00", 11) + "\x07\x10\x00\x00\x50"
	tlv := string(proxySignature) + "\x21\x11\x00\x10" + "\x7f\x00\x00\x01\xc6\x12\x00\x07\x10\x00\x01\xbb" + "\x04\x00\x01x"
	for in, want := range map[string]string{
		v4: "198.18.0.7:443", v6: "[2001:2::7]:80", tlv: "198.18.0.7:443",
		strings.Replace(v6, "\x20\x01\x00\x02"+strings.Repeat("\x00", 11)+"\x07", strings.Repeat("\x00", 10)+"\xff\xff\x08\x08\x08\x08", 1): "8.8.8.8:80",
	} {
		r := strings.NewReader(in + "the rest")
		got, err := ReadProxyHeader(r)
		if err != nil || got != netip.MustParseAddrPort(want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "the rest" {
			t.Errorf("%q: %q is left", in, rest)
		}
	}
	for name, in := range map[string]string{
		"nothing": "", "cut": v4[:20], "version 1": "PROXY TCP4 127.0.0.1 127.0.0.2 1 2\r\n", "LOCAL": string(proxySignature) + "\x20\x00\x00\x00",
		"UDP": strings.Replace(v4, "\x21\x11", "\x21\x12", 1), "unix": strings.Replace(v4, "\x21\x11", "\x21\x31", 1),
		"unspecified": strings.Replace(v4, "\x21\x11", "\x21\x00", 1), "too short": string(proxySignature) + "\x21\x11\x00\x0b" + strings.Repeat("x", 11),
		"v6 in the size of v4": string(proxySignature) + "\x21\x21\x00\x0c" + strings.Repeat("x", 12),
		"too long":             string(proxySignature) + "\x21\x11\xff\xff" + strings.Repeat("x", 1<<16), "HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if got, err := ReadProxyHeader(strings.NewReader(in)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// through reads what a Gate lets pass of text, and the heads that it saw.
func through(r io.Reader, prefix string) (passed string, heads []Head, err error) {
	g := NewGate(r, []byte(prefix), func(h Head) error { heads = append(heads, h); return nil })
	b, err := io.ReadAll(g)
	return string(b), heads, err
}

func TestGatePasses(t *testing.T) {
	get := "GET /a?b HTTP/1.1\r\nHost: a.example\r\nX: \t y \r\n\r\n"
	post := "POST /p HTTP/1.1\r\nHost: a.example\r\nContent-Length: 21\r\n\r\nGET /x HTTP/1.1\r\n\r\nzz"
	chunked := "PUT /c HTTP/1.1\r\nhost: b.example\r\ntransfer-encoding: Chunked\r\n\r\n" +
		"5\r\nhello\r\n00a\r\n0\r\n\r\n12345\r\n0\r\nX-Trailer: y\r\n\r\n"
	old := "GET / HTTP/1.0\r\n\r\n"
	absolute := "GET http://c.example/ HTTP/1.1\r\nHost: c.example\r\nproxy-authorization: Bearer t\r\n\r\n"
	want := []Head{
		{Method: "GET", Target: "/a?b", Host: "a.example"}, {Method: "POST", Target: "/p", Host: "a.example"}, {Method: "PUT", Target: "/c", Host: "b.example"},
		{Method: "GET", Target: "/"}, {Method: "GET", Target: "http://c.example/", Host: "c.example", ProxyAuthorization: "Bearer t"},
	}
	all := get + post + chunked + old + absolute
	for how, run := range map[string]func() (string, []Head, error){
		"at once":      func() (string, []Head, error) { return through(strings.NewReader(all), "") },
		"byte by byte": func() (string, []Head, error) { return through(iotest.OneByteReader(strings.NewReader(all)), "") },
		"prefix":       func() (string, []Head, error) { return through(strings.NewReader(all[100:]), all[:100]) },
		"all prefix":   func() (string, []Head, error) { return through(strings.NewReader(""), all) },
		"small reads": func() (string, []Head, error) {
			var heads []Head
			g := NewGate(strings.NewReader(all), nil, func(h Head) error { heads = append(heads, h); return nil })
			b, err := io.ReadAll(iotest.OneByteReader(g))
			return string(b), heads, err
		},
	} {
		passed, heads, err := run()
		if diff := cmp.Diff(want, heads); diff != "" || passed != all || err != nil {
			t.Errorf("%s: %v, passed %q\n%s", how, err, passed, diff)
		}
	}
}

func TestGateRefuses(t *testing.T) {
	const host = "Host: a.example\r\n"
	for name, text := range map[string]string{
		"CL and TE":              "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"TE and CL":              "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"two lengths":            "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"two equal lengths":      "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"a list of lengths":      "POST / HTTP/1.1\r\n" + host + "Content-Length: 5, 5\r\n\r\nhello",
		"a signed length":        "POST / HTTP/1.1\r\n" + host + "Content-Length: +5\r\n\r\nhello",
		"a negative length":      "POST / HTTP/1.1\r\n" + host + "Content-Length: -5\r\n\r\nhello",
		"an empty length":        "POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n\r\nhello",
		"a huge length":          "POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\nhello",
		"two codings":            "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a coding before":        "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"identity":               "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n",
		"an odd coding":          "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"chunked in 1.0":         "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a folded line":          "GET / HTTP/1.1\r\n" + host + "X: y\r\n Host: b.example\r\n\r\n",
		"a folded first line":    "GET / HTTP/1.1\r\n " + host + "\r\n",
		"a space before a colon": "GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",
		"a tab in a name":        "GET / HTTP/1.1\r\n" + host + "Transfer-Encoding\t: chunked\r\n\r\n",
		"no colon":               "GET / HTTP/1.1\r\n" + host + "X\r\n\r\n",
		"no name":                "GET / HTTP/1.1\r\n" + host + ": x\r\n\r\n",
		"bare LF":                "GET / HTTP/1.1\n" + "Host: a.example\n\n",
		"a bare LF in a field":   "GET / HTTP/1.1\r\n" + host + "X: y\nHost: b.example\r\n\r\n",
		"a bare CR in a field":   "GET / HTTP/1.1\r\n" + host + "X: y\rHost: b.example\r\n\r\n",
		"NUL in a field":         "GET / HTTP/1.1\r\n" + host + "X: y\x00\r\n\r\n",
		"two hosts":              "GET / HTTP/1.1\r\n" + host + "host: b.example\r\n\r\n",
		"two identities":         "GET / HTTP/1.1\r\n" + host + "Proxy-Authorization: Bearer a\r\nproxy-authorization: Bearer b\r\n\r\n",
		"an identity at the end": "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nProxy-Authorization: Bearer b\r\n\r\n",
		"no host":                "GET / HTTP/1.1\r\n\r\n",
		"no version":             "GET /\r\n\r\n",
		"HTTP/2":                 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/1.2":               "GET / HTTP/1.2\r\n" + host + "\r\n",
		"http/1.1":               "GET / http/1.1\r\n" + host + "\r\n",
		"two spaces":             "GET  / HTTP/1.1\r\n" + host + "\r\n",
		"a space in the target":  "GET /a b HTTP/1.1\r\n" + host + "\r\n",
		"a tab in the target":    "GET /a\tb HTTP/1.1\r\n" + host + "\r\n",
		"a fragment":             "GET /a#b HTTP/1.1\r\n" + host + "\r\n",
		"a backslash":            "GET http:\\\\b.example/ HTTP/1.1\r\n" + host + "\r\n",
		"not ASCII":              "GET /\u00e9 HTTP/1.1\r\n" + host + "\r\n",
		"a method":               "G(T / HTTP/1.1\r\n" + host + "\r\n",
		"an empty line first":    "\r\nGET / HTTP/1.1\r\n" + host + "\r\n",
		"TLS":                    "\x16\x03\x01\x02\x00\x01\x00",
		"SSH":                    "SSH-2.0-OpenSSH_9.0\r\n",
		"a chunk extension":      "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
		"a chunk too long":       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
		"a chunk of -1":          "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
		"a chunk of 0x5":         "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
		"a chunk of nothing":     "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
		"a chunk line of LF":     "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
		"a huge chunk":           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"a trailer with Host":    "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: b.example\r\n\r\n",
		"CONNECT with a body":    "CONNECT a:1 HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello",
		"a long head":            "GET / HTTP/1.1\r\n" + host + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 70) + "\r\n",
		"a long line":            "GET /" + strings.Repeat("y", 70000),
		"a long trailer":         "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 2000) + "\r\n",
	} {
		good := "GET /first HTTP/1.1\r\nHost: a.example\r\n\r\n"
		for how, r := range map[string]io.Reader{
			"at once":      strings.NewReader(good + text),
			"byte by byte": iotest.OneByteReader(strings.NewReader(good + text)),
		} {
			passed, _, err := through(r, "")
			var refused *Error
			if !errors.As(err, &refused) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			if !strings.HasPrefix(passed, good) {
				t.Errorf("%s, %s: the request before was not passed", name, how)
			}
			if name == "CL and TE" && passed != good {
				t.Errorf("%s: %q passed", name, passed)
			}
		}
	}
}

func TestGateChecks(t *testing.T) {
	no := errors.New("no")
	second := "GET /2 HTTP/1.1\r\nHost: b.example\r\n\r\n"
	g := NewGate(strings.NewReader("GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n"+second+second), nil, func(h Head) error {
		if h.Host != "a.example" {
			return no
		}
		return nil
	})
	passed, err := io.ReadAll(g)
	if err != no || strings.Contains(string(passed), "/2") {
		t.Errorf("%q, %v", passed, err)
	}
	if _, err := g.Read(make([]byte, 1)); err != no {
		t.Errorf("what was refused came back: %v", err)
	}
}

func TestGateLetsConnectGo(t *testing.T) {
	g := NewGate(strings.NewReader("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03\x01rest"), nil, func(Head) error { return nil })
	passed, err := io.ReadAll(g)
	if err != nil || !bytes.HasSuffix(passed, []byte("\r\n\r\n")) {
		t.Errorf("%q, %v", passed, err)
	}
	if rest := g.Rest(); string(rest) != "\x16\x03\x01rest" {
		t.Errorf("%q", rest)
	}
}

func TestGateOpens(t *testing.T) {
	r, w := io.Pipe()
	g := NewGate(r, nil, func(Head) error { return nil })
	go w.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n\x81\x05"))
	head := make([]byte, 27)
	if _, err := io.ReadFull(g, head); err != nil {
		t.Fatal(err)
	}
	g.Open()
	go func() { w.Write([]byte("frame")); w.Close() }()
	if rest, err := io.ReadAll(g); string(rest) != "\x81\x05frame" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(realHello(f, &tls.Config{ServerName: "a.example"}))
	f.Add(madeHello(serverName("a.example"), extension(0xfe0d, "x")))
	f.Add(split(madeHello(serverName("a.example")), 7))
	f.Fuzz(func(t *testing.T, wire []byte) {
		whole, read, err := ReadHello(bytes.NewReader(wire), nil)
		if !bytes.HasPrefix(wire, read) {
			t.Fatal("what was read is not what was sent")
		}
		slow, _, slowErr := ReadHello(iotest.OneByteReader(bytes.NewReader(wire)), nil)
		if whole != slow || (err == nil) != (slowErr == nil) {
			t.Errorf("%+v, %v at once; %+v, %v byte by byte", whole, err, slow, slowErr)
		}
	})
}

func FuzzSecondHello(f *testing.F) {
	f.Add([]byte("\x14\x03\x03\x00\x01\x01" + string(madeHello(serverName("a.example")))))
	f.Add([]byte("\x17\x03\x03\x00\x05early" + string(split(madeHello(serverName("a.example")), 9))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, wire, _ := ReadSecondHello(bytes.NewReader(b)); !bytes.HasPrefix(b, wire) {
			t.Fatal("what was read is not what was sent")
		}
		if _, wire, _ := ReadServerStart(bytes.NewReader(b)); !bytes.HasPrefix(b, wire) {
			t.Fatal("what was read is not what was sent")
		}
	})
}

func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte(string(proxySignature) + "\x21\x11\x00\x0c\x7f\x00\x00\x01\xc6\x12\x00\x07\x10\x00\x01\xbb"))
	f.Add([]byte(string(proxySignature) + "\x21\x21\x00\x24" + strings.Repeat("x", 36)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if addr, err := ReadProxyHeader(bytes.NewReader(b)); err == nil && (!addr.Addr().IsValid() || addr.Addr().Is4In6()) {
			t.Errorf("%v", addr)
		}
	})
}

// FuzzGate: a lenient reader behind a Gate sees the requests that the Gate saw.
func FuzzGate(f *testing.F) {
	f.Add("GET /a HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	f.Add("CONNECT a:1 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
	for _, zeros := range []int{maxChunk, maxChunk + 1, maxChunk + 2} {
		f.Add("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", zeros) + "\r\n\r\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		passed, heads, _ := through(strings.NewReader(text), "")
		if !strings.HasPrefix(text, passed) {
			t.Fatalf("%q became %q", text, passed)
		}
		slow, slowHeads, _ := through(iotest.OneByteReader(strings.NewReader(text)), "")
		if slow != passed || !cmp.Equal(heads, slowHeads) {
			t.Fatalf("%q and, byte by byte, %q", passed, slow)
		}
		r := bufio.NewReader(strings.NewReader(passed))
		for i := 0; ; i++ {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if i >= len(heads) || request.Method != heads[i].Method || request.RequestURI != heads[i].Target {
				t.Fatalf("request %d is %s %s to net/http, of %+v", i, request.Method, request.RequestURI, heads)
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
		}
	})
}
