package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"forage/internal/deadline"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// Ports where the client speaks first, in a language that says whom it means.
const (
	httpPort = 80
	tlsPort  = 443
)

// tunnel serves a connection that was allowed. prefix was read from the client
// before; upstream is nil where nothing has been dialled yet.
func (f *flow) tunnel(c *permit, prefix []byte, upstream net.Conn) {
	f.hello = f.e.heads.Share()
	s, err := f.begin(c, prefix, &upstream)
	f.hello.Close()
	switch {
	case err == nil && s != nil:
		c.closing(c.event, f.e.http.serve(s))
		return
	case err == nil:
		err = relay.Join(f.client, upstream, &f.counts)
	case upstream != nil:
		relay.Reset(upstream)
	}
	if err != nil {
		relay.Reset(f.client)
	}
	if !isRecorded(err) {
		c.closing(c.event, err)
	}
}

// begin reads what has to be read of a connection before it may go on. It is then
// looked into as HTTP where there is a session, else joined with upstream.
func (f *flow) begin(c *permit, prefix []byte, upstream *net.Conn) (*session, error) {
	r, d := c.request, c.now()
	looks := f.e.looksInto(r, d)
	if r.Port == httpPort {
		return newSession(f, &r, prefix), nil
	}
	if !looks && r.Port != tlsPort {
		return nil, f.join(c, prefix, upstream)
	}
	if looks && r.Port != tlsPort {
		isTLS, read, err := f.peek(r, prefix)
		if err != nil {
			return nil, err
		}
		if prefix = read; !isTLS {
			return f.inspectClear(r, d, prefix)
		}
	}
	named, prefix, err := f.sniffTLS(r, prefix)
	if err != nil {
		return nil, err
	}
	if looks || named != r && f.e.looksInto(named, f.e.decide(named)) {
		if *upstream != nil {
			relay.Reset(*upstream)
			*upstream = nil
			c.beLookedInto()
		}
		return f.intercept(named, prefix)
	}
	return nil, f.join(c, prefix, upstream)
}

// join connects to what is not looked into, where that was not done before,
// and passes on what was read.
func (f *flow) join(c *permit, prefix []byte, upstream *net.Conn) (err error) {
	if *upstream == nil {
		if err := c.beWhole(); err != nil {
			return err
		}
		if *upstream, _, err = c.dial(f.ctx); err != nil {
			return err
		}
	}
	if err := f.attach(*upstream); err != nil {
		return err
	}
	if len(prefix) > 0 {
		if _, err := (*upstream).Write(prefix); err != nil {
			return err
		}
		if err := f.counts.Out.Moved(len(prefix)); err != nil {
			return err
		}
	}
	if c.request.Port == tlsPort {
		return f.watchRetry(c.request, *upstream)
	}
	return nil
}

// watchRetry passes on the beginning of the server's answer. When that asks
// for another ClientHello, its name has to agree like the first's: servers go by the
// second.
func (f *flow) watchRetry(r policy.Request, upstream net.Conn) error {
	if err := upstream.SetReadDeadline(time.Now().Add(deadline.Answer)); err != nil {
		return err
	}
	retry, wire, err := sniff.ReadServerStart(upstream)
	if len(wire) > 0 {
		if _, err := f.client.Write(wire); err != nil {
			return err
		}
		if err := f.counts.In.Moved(len(wire)); err != nil {
			return err
		}
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
	var again sniff.Hello
	if err := f.readFirst(r, func() (err error) { again, wire, err = sniff.ReadSecondHello(f.client); return err }); err != nil {
		return err
	}
	if _, err := f.checkHello(r, again); err != nil {
		return err
	}
	if _, err = upstream.Write(wire); err != nil {
		return err
	}
	return f.counts.Out.Moved(len(wire))
}

// sniffTLS reads the ClientHello and holds its name against the one that was
// judged. It returns what the client means, and all that was read.
func (f *flow) sniffTLS(r policy.Request, prefix []byte) (named policy.Request, wire []byte, err error) {
	var hello sniff.Hello
	err = f.readFirst(r, func() (err error) {
		hello, wire, err = sniff.ReadHello(f.hello.Reader(f.client), prefix)
		return err
	})
	if err == nil {
		named, err = f.checkHello(r, hello)
	}
	return named, wire, err
}

// checkHello returns what a ClientHello to r means: r, or the name in it where r is an address.
func (f *flow) checkHello(r policy.Request, hello sniff.Hello) (policy.Request, error) {
	if hello.Encrypted && !f.e.rules.Load().policy.Full() {
		return r, f.denyRequest(r, "ech", "the TLS ClientHello may hide another name (encrypted_client_hello); turn that off in the client")
	}
	if hello.ServerName == "" {
		if r.Host == "" { // an address has no name to give
			return r, nil
		}
		return r, f.denyRequest(r, "sni-missing", "the TLS ClientHello names no server")
	}
	name, addr, err := policy.ParseHost(hello.ServerName)
	switch {
	case err != nil:
		return r, f.denyRequest(r, "sni-mismatch", "the TLS ClientHello names no host: "+err.Error())
	case r.Host != "" && name == r.Host, r.Host == "" && addr == r.Addr:
		return r, nil
	case r.Host == "" && name != "":
		// The address is allowed; what is asked of it has to be as well.
		named := f.e.router.Complete(policy.Request{Host: name, Port: r.Port})
		if f.e.decide(named).Verdict == policy.Allow {
			return named, nil
		}
	}
	return r, f.denyRequest(r, "sni-mismatch", fmt.Sprintf("the TLS ClientHello is for %.255q", hello.ServerName))
}
