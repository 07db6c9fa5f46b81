package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// Ports where the client speaks first, in a language that says whom it means.
const (
	httpPort = 80
	tlsPort  = 443
)

// tunnel moves bytes between the client and what was allowed. prefix was read
// from the client before; upstream is nil where nothing has been dialled yet.
func (f *flow) tunnel(event audit.Event, r policy.Request, d policy.Decision, prefix []byte, upstream net.Conn) {
	err := f.runTunnel(r, d, prefix, upstream)
	if err != nil {
		relay.Reset(f.client)
	}
	var denied *deniedError
	if !errors.As(err, &denied) { // a denial has its line already
		f.closing(event, r, d, &f.counts, err)
	}
}

func (f *flow) runTunnel(r policy.Request, d policy.Decision, prefix []byte, upstream net.Conn) (err error) {
	defer func() {
		if err != nil && upstream != nil {
			relay.Reset(upstream)
		}
	}()
	if upstream != nil {
		if err := f.attach(upstream); err != nil {
			return err
		}
	}
	if r.Port == tlsPort {
		if prefix, err = f.sniffTLS(r, prefix); err != nil {
			return err
		}
	}
	if upstream == nil {
		if upstream, err = f.dial(f.ctx, r, d); err != nil {
			return err
		}
		if err := f.attach(upstream); err != nil {
			return err
		}
	}
	if len(prefix) > 0 {
		if _, err := upstream.Write(prefix); err != nil {
			return err
		}
		f.counts.Out.Add(int64(len(prefix)))
	}
	if r.Port == tlsPort {
		if err := f.watchRetry(r, upstream); err != nil {
			return err
		}
	}
	return relay.Join(f.client, upstream, &f.e.pipes, &f.counts)
}

// watchRetry passes on the beginning of the server's answer. When that asks
// for another ClientHello, its name has to agree like the first's: servers go by the
// second.
func (f *flow) watchRetry(r policy.Request, upstream net.Conn) error {
	if err := upstream.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	retry, wire, err := sniff.ReadServerStart(upstream)
	if len(wire) > 0 {
		if _, err := f.client.Write(wire); err != nil {
			return err
		}
		f.counts.In.Add(int64(len(wire)))
	}
	if err == io.EOF { // as it would be without us
		return upstream.SetReadDeadline(time.Time{})
	}
	if err := errors.Join(err, upstream.SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	if !retry {
		return nil
	}
	wire, err = f.checkHello(r, func() (sniff.Hello, []byte, error) { return sniff.ReadSecondHello(f.client) })
	if err != nil {
		return err
	}
	_, err = upstream.Write(wire)
	f.counts.Out.Add(int64(len(wire)))
	return err
}

// sniffTLS reads the ClientHello and holds its name against the one that was
// judged. It returns all that was read.
func (f *flow) sniffTLS(r policy.Request, prefix []byte) ([]byte, error) {
	return f.checkHello(r, func() (sniff.Hello, []byte, error) { return sniff.ReadHello(f.client, prefix) })
}

func (f *flow) checkHello(r policy.Request, read func() (sniff.Hello, []byte, error)) ([]byte, error) {
	if err := f.client.SetReadDeadline(time.Now().Add(f.e.config.SniffTimeout)); err != nil {
		return nil, err
	}
	hello, wire, err := read()
	var refused *sniff.Error
	switch {
	case errors.As(err, &refused):
		return nil, f.denyRequest(r, refused.Rule, refused.Reason)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, f.denyRequest(r, "sniff-timeout", "the client did not say whom it means in time")
	case err != nil:
		return nil, fmt.Errorf("the client left before it said whom it means: %w", err)
	}
	if rule, reason := f.helloDisagrees(r, hello); rule != "" {
		return nil, f.denyRequest(r, rule, reason)
	}
	return wire, f.client.SetReadDeadline(time.Time{})
}

// helloDisagrees says what keeps a ClientHello from being sent to r.
func (f *flow) helloDisagrees(r policy.Request, hello sniff.Hello) (rule, reason string) {
	f.e.mu.Lock()
	p := f.e.policy
	f.e.mu.Unlock()
	if hello.Encrypted && !p.Full() {
		return "ech", "the TLS ClientHello may hide another name (encrypted_client_hello); turn that off in the client"
	}
	if hello.ServerName == "" {
		if r.Host == "" { // an address has no name to give
			return "", ""
		}
		return "sni-missing", "the TLS ClientHello names no server"
	}
	name, addr, err := policy.ParseHost(hello.ServerName)
	switch {
	case err != nil:
		return "sni-mismatch", "the TLS ClientHello names no host: " + err.Error()
	case r.Host != "" && name == r.Host, r.Host == "" && addr == r.Addr:
		return "", ""
	case r.Host == "" && name != "":
		// The address is allowed; what is asked of it has to be as well.
		if d := policy.Decide(p, f.e.pins.request(policy.Request{Host: name, Port: r.Port})); d.Verdict == policy.Allow {
			return "", ""
		}
	}
	return "sni-mismatch", fmt.Sprintf("the TLS ClientHello is for %.255q", hello.ServerName)
}

// denyRequest records that something allowed is refused after all.
func (f *flow) denyRequest(r policy.Request, rule, reason string) error {
	return f.deny(audit.Event{Kind: audit.Connect, Host: r.Dest(), Port: r.Port}, policy.Decision{Rule: rule, Reason: reason})
}
