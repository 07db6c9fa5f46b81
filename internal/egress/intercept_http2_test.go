package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawHTTP2 is a connection of HTTP/2 on which anything can be said.
type rawHTTP2 struct {
	*http2.Framer
	stream uint32
}

func (s *secureWorld) rawHTTP2(host string) *rawHTTP2 {
	s.t.Helper()
	conn := tls.Client(s.toName(host, 443), &tls.Config{ServerName: host, RootCAs: s.inside, NextProtos: []string{"h2"}})
	if err := conn.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	return &rawHTTP2{framer, 1}
}

// ask sends a request of these fields and returns the status of its answer; "" is a refusal
// without one.
func (c *rawHTTP2) ask(t *testing.T, fields ...string) string {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	id := c.stream
	c.stream += 2
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return ""
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID == id {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == id {
				return ""
			}
		case *http2.GoAwayFrame:
			return ""
		}
	}
}

// Every request of HTTP/2 is for the name that the connection was judged by.
func TestInterceptedAuthority(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	good := []string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/good"}
	c := s.rawHTTP2("a.example")
	want := 0
	for name, tt := range map[string]struct {
		fields []string
		status string
	}{
		"another :authority":            {[]string{":method", "GET", ":scheme", "https", ":authority", "b.example", ":path", "/"}, "403"},
		"another port":                  {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example:80", ":path", "/"}, "403"},
		"no :authority":                 {[]string{":method", "GET", ":scheme", "https", ":path", "/"}, "403"},
		"Host alone, another":           {[]string{":method", "GET", ":scheme", "https", ":path", "/", "host", "b.example"}, "403"},
		"Host beside :authority":        {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", "host", "b.example"}, "403"},
		"two Hosts":                     {[]string{":method", "GET", ":scheme", "https", ":path", "/", "host", "a.example", "host", "b.example"}, "403"},
		"another scheme":                {[]string{":method", "GET", ":scheme", "http", ":authority", "a.example", ":path", "/good"}, "200"}, // it is https that is sent on
		"absolute":                      {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "https://b.example/"}, "403"},
		"CONNECT":                       {[]string{":method", "CONNECT", ":authority", "a.example:443"}, "403"},
		"the same, in another spelling": {[]string{":method", "GET", ":scheme", "https", ":authority", "A.Example.:443", ":path", "/good"}, "200"},
	} {
		if got := c.ask(t, tt.fields...); got != tt.status {
			t.Errorf("%s: %q, want %s", name, got, tt.status)
		}
		// The others on the connection go on.
		if got := c.ask(t, good...); got != "200" {
			t.Fatalf("after %s: %q", name, got)
		}
		want++
		if tt.status == "200" {
			want++
		}
	}
	// What no server should understand ends the stream, or the connection, and never reaches the
	// server.
	for name, fields := range map[string][]string{
		"two paths":          {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", ":path", "/x"},
		"two authorities":    {":method", "GET", ":scheme", "https", ":authority", "a.example", ":authority", "b.example", ":path", "/"},
		"transfer-encoding":  {":method", "POST", ":scheme", "https", ":authority", "a.example", ":path", "/", "transfer-encoding", "chunked"},
		"a line in a field":  {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", "x", "y\r\nhost: b.example"},
		"a line in the path": {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/ HTTP/1.1\r\nhost: b.example\r\n\r\n"},
		"a path without /":   {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "x"},
		"user in :authority": {":method", "GET", ":scheme", "https", ":authority", "x@a.example", ":path", "/"},
		"no path":            {":method", "GET", ":scheme", "https", ":authority", "a.example"},
		"a pseudo-field":     {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", ":protocol", "websocket"},
	} {
		if got := s.rawHTTP2("a.example").ask(t, fields...); got != "" && got[0] != '4' {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := site.requests(); len(got) != want {
		t.Errorf("the server saw %d requests: %q", len(got), got)
	}
	for _, seen := range site.requests() {
		if seen != "GET a.example /good" {
			t.Errorf("the server saw %q", seen)
		}
	}
}
