package egress

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A host with a secret answers at other ports too, as those behind a big CDN do: where nobody has
// named such a port, the agent's own credential goes there no more than to the one that is bound.
func TestForeignCredentialAtAnotherPort(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  string
		allow []string
		free  bool
	}{
		"any port":       {"restricted", []string{"a.example"}, false},
		"named":          {"restricted", []string{"a.example", "a.example:8443"}, true},
		"full":           {"full", nil, false},
		"another's port": {"restricted", []string{"a.example", "*.example:8443"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSecureWorld(t, mustPolicy(t, tt.mode, tt.allow...), func(c *Config) {
				c.Credentials = bound(t, &vault{value: testSecret}, "", "a.example")
			})
			s.serveTLS(public+":8443", http.HandlerFunc(teller))
			client := s.client(false)
			if tt.free {
				client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
			}
			r, _ := http.NewRequest("GET", "https://a.example:8443/v1", nil)
			r.Header.Set("X-Api-Key", "of-somebody-else")
			res, err := client.Do(r)
			_, body := answer(t, res, err)
			if leaked([]byte(body)) || strings.Contains(body, "of-somebody-else") != tt.free {
				t.Errorf("the server was told %q", body)
			}
			if !tt.free {
				s.denied("foreign-credential")
				conn := s.toName("a.example", 8080)
				fmt.Fprint(conn, "GET /v1 HTTP/1.1\r\nHost: a.example:8080\r\nX-Api-Key: of-somebody-else\r\n\r\n")
				expectReset(t, conn)
				s.denied("not-tls")
			}
		})
	}
}

// Who connects to an address and asks it for a host with a secret meets the same walls.
func TestForeignCredentialByAddress(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "full"), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "", "a.example")
	})
	heads := make(chan http.Header, 1)
	s.serve(public+":80", func(conn net.Conn) {
		defer conn.Close()
		if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			heads <- r.Header
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	conn := s.to(public + ":80")
	fmt.Fprint(conn, "GET /v1 HTTP/1.1\r\nHost: a.example\r\nX-Api-Key: of-somebody-else\r\n\r\n")
	if got := (<-heads).Get("X-Api-Key"); got != "" {
		t.Errorf("the server got %q", got)
	}
	s.denied("foreign-credential")
}
