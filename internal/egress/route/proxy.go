package route

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"forage/internal/deadline"
	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// maxProxyAnswer bounds an upstream proxy's answer to CONNECT, in bytes.
const maxProxyAnswer = 16 << 10

// CheckProxy says what is wrong with the URL of a proxy.
func CheckProxy(u *url.URL) error {
	if u.Scheme != "http" || u.Hostname() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return fmt.Errorf("network.upstreamProxy %q: expected http://HOST:PORT", u.Redacted())
	}
	if _, err := proxyPort(u); err != nil {
		return fmt.Errorf("network.upstreamProxy %q: %w", u.Redacted(), err)
	}
	return nil
}

func proxyPort(u *url.URL) (uint16, error) {
	if u.Port() == "" {
		return 80, nil
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("expected a port from 1 to 65535")
	}
	return uint16(n), nil
}

// DialProxy connects to the proxy itself, which is where the configuration says: its address is
// not checked.
func (r *Router) DialProxy(ctx context.Context) (net.Conn, error) {
	port, err := proxyPort(r.Proxy)
	if err != nil {
		return nil, err
	}
	to := policy.Request{Host: r.Proxy.Hostname(), Port: port}
	if to.Addr, err = netip.ParseAddr(to.Host); err == nil {
		to.Addr = to.Addr.Unmap()
	}
	addrs, err := r.resolve(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("the upstream proxy: %w", err)
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the upstream proxy")
	defer cancel()
	got := r.race(ctx, takeTurns(addrs))
	if got.err != nil {
		return nil, fmt.Errorf("connecting to the upstream proxy: %w", got.err)
	}
	return got.conn, nil
}

// proxyCredentials are the value of Proxy-Authorization, or "".
func proxyCredentials(u *url.URL) string {
	if u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
}

// dialThroughProxy asks the upstream proxy for a tunnel, by name (RFC 9110, 9.3.6).
func (r *Router) dialThroughProxy(ctx context.Context, to policy.Request) (net.Conn, error) {
	conn, err := r.DialProxy(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { relay.Reset(conn) })
	tunnel, err := r.openTunnel(conn, to.Authority())
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		relay.Reset(conn)
		return nil, fmt.Errorf("through the upstream proxy: %w", err)
	}
	return tunnel, nil
}

// openTunnel asks for a tunnel on a connection to the upstream proxy.
func (r *Router) openTunnel(conn net.Conn, authority string) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(deadline.Answer)); err != nil {
		return nil, err
	}
	request := "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n"
	if credentials := proxyCredentials(r.Proxy); credentials != "" {
		request += "Proxy-Authorization: " + credentials + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return nil, err
	}
	head, err := readAnswerHead(conn)
	if err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("it answered %q", answer.Status)
	}
	return conn, conn.SetDeadline(time.Time{})
}

// readAnswerHead reads up to the empty line, a byte at a time, so that nothing
// of the tunnel's own is read: the answer is short, and there is one of it.
func readAnswerHead(conn net.Conn) ([]byte, error) {
	head := make([]byte, 0, 256)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if len(head) > maxProxyAnswer {
			return nil, errors.New("its answer is too long")
		}
		head = append(head, 0)
		if _, err := io.ReadFull(conn, head[len(head)-1:]); err != nil {
			return nil, fmt.Errorf("reading its answer: %w", err)
		}
	}
	return head, nil
}
