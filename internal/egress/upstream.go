package egress

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

func checkProxyURL(u *url.URL) error {
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

// dialProxy connects to the upstream proxy itself, which is where the
// configuration says: its address is not checked.
func (e *Engine) dialProxy(ctx context.Context) (net.Conn, error) {
	u := e.config.UpstreamProxy
	port, err := proxyPort(u)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err == nil {
		return e.config.Dial(ctx, netip.AddrPortFrom(addr, port))
	}
	lookup, cancel := deadline.Within(ctx, deadline.Answer, "the resolver")
	defer cancel()
	addrs, err := e.config.Lookup(lookup, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("looking up the upstream proxy: %w", err)
	}
	errs := []error{errors.New("connecting to the upstream proxy")}
	for _, addr := range addrs[:min(len(addrs), maxTries)] {
		conn, err := e.config.Dial(ctx, netip.AddrPortFrom(addr.Unmap(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
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
func (e *Engine) dialThroughProxy(ctx context.Context, r policy.Request) (net.Conn, error) {
	conn, err := e.dialProxy(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { relay.Reset(conn) })
	tunnel, err := e.openTunnel(conn, r.Authority())
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
func (e *Engine) openTunnel(conn net.Conn, authority string) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(deadline.Answer)); err != nil {
		return nil, err
	}
	request := "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n"
	if credentials := proxyCredentials(e.config.UpstreamProxy); credentials != "" {
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
