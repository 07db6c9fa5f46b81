package probe

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/deadline"
)

// networkWalls hold with network mode none. The addresses are documentation's
// (RFC 5737, RFC 3849) and the clouds' metadata service.
func networkWalls() []wall {
	return []wall{
		{"network", "having an interface but lo", func(context.Context) error {
			text, err := os.ReadFile("/proc/net/dev")
			if err != nil {
				return err
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			return must(len(lines) == 3 && strings.HasPrefix(strings.TrimSpace(lines[2]), "lo:"), "lo alone")
		}},
		dialling("tcp", "192.0.2.1:443"), dialling("tcp", "[2001:db8::1]:443"),
		dialling("tcp", "169.254.169.254:80"), dialling("tcp", "10.0.0.1:22"),
		dialling("udp", "192.0.2.1:443"), dialling("udp", "[2001:db8::1]:443"),
		{"network", "resolving a name", func(ctx context.Context) error {
			ctx, cancel := deadline.Within(ctx, deadline.Answer, "the resolver")
			defer cancel()
			_, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, "example.com")
			return err
		}},
	}
}

// dialling must be answered by a refusal, without a byte of data: the redirect completes the
// handshake of TCP, so there it is a reset. Silence means that something got through.
func dialling(network, address string) wall {
	return wall{"network", strings.ToUpper(network) + " to " + address, func(ctx context.Context) error {
		dialer := net.Dialer{Timeout: deadline.Answer}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return errors.Unwrap(err)
		}
		defer conn.Close()
		if network == "udp" {
			if _, err := conn.Write([]byte("x")); err != nil {
				return err
			}
		}
		conn.SetReadDeadline(time.Now().Add(deadline.Answer))
		_, err = conn.Read(make([]byte, 1))
		for _, refusal := range []unix.Errno{unix.ECONNRESET, unix.ECONNREFUSED, unix.EPERM} {
			if errors.Is(err, refusal) {
				return refusal
			}
		}
		return nil
	}}
}
