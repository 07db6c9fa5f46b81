package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/guest/wire"
)

// Bounds on what is forwarded from inside to one client.
const (
	maxListening = 16      // ports
	maxForwarded = 64      // connections to one of them, or to the client's agent
	maxAddress   = 1 << 10 // of where the sandbox says that it listens, in bytes
)

// forwarded is what a client asks to be forwarded: RFC 4254, section 7.1.
type forwarded struct {
	Host string
	Port uint32
}

// requests answers a client's requests that are about no channel. Others, such as keep-alives, are
// answered by being refused.
func (c *client) requests(ctx context.Context, requests <-chan *ssh.Request) {
	for request := range requests {
		var wanted forwarded
		var answer []byte
		ok := ssh.Unmarshal(request.Payload, &wanted) == nil
		switch {
		case ok && request.Type == "tcpip-forward":
			port, err := c.forwardPort(ctx, wanted)
			if err != nil {
				c.server.Log.Info("refused", "key", c.key.Fingerprint(), "port", wanted.Port, "reason", err)
				c.mu.Lock()
				c.refused = err
				c.mu.Unlock()
			}
			if ok = err == nil; wanted.Port == 0 {
				answer = ssh.Marshal(struct{ Port uint32 }{port})
			}
		case ok && request.Type == "cancel-tcpip-forward":
			stop := c.listening[wanted]
			if ok = stop != nil; ok {
				stop()
				delete(c.listening, wanted)
			}
		default:
			ok = false
		}
		request.Reply(ok, answer)
	}
}

// whyRefused is why a port is not forwarded, once.
func (c *client) whyRefused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.refused
	c.refused = nil
	return err
}

// forwardPort has the sandbox listen on a port of its loopback. With the user name forage the
// sandbox's name comes as the address to listen on; ssh(1) sends "localhost" where there is none.
func (c *client) forwardPort(ctx context.Context, wanted forwarded) (uint32, error) {
	name := c.named
	if name == "" {
		name = wanted.Host
	}
	if forage.CheckName(name) != nil || c.named == "" && name == "localhost" {
		return 0, forage.WithHint(errNameIt, "or as the address: -R NAME:PORT:HOST:PORT")
	}
	if len(c.listening) >= maxListening {
		return 0, errors.New("too many ports are forwarded")
	}
	if err := c.allow(ctx, name, "forward "+forage.ForwardPorts, fmt.Sprint(wanted.Port), false); err != nil {
		return 0, err
	}
	address, stop, err := c.listen(ctx, name, wire.Listen{Port: wanted.Port}, "forwarded-tcpip", func(address string) []byte {
		return ssh.Marshal(struct {
			Host       string
			Port       uint32
			OriginHost string
			OriginPort uint32
		}{wanted.Host, portOf(address), "127.0.0.1", 1}) // whose it is nobody knows; some clients refuse 0
	})
	if err != nil {
		return 0, err
	}
	port := portOf(address)
	if port == 0 || wanted.Port != 0 && port != wanted.Port {
		stop()
		return 0, errNoAddress
	}
	c.listening[forwarded{wanted.Host, port}] = stop
	return port, nil
}

var errNoAddress = errors.New("the sandbox does not say where it listens")

// portOf is the port of an address, 0 if there is none.
func portOf(address string) uint32 {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.ParseUint(text, 10, 16)
	return uint32(port)
}

// agent has the sandbox listen for who wants the client's SSH agent. It returns the variable that
// leads there, as a session's request has it.
func (c *client) agent(ctx context.Context, name string) (variable []byte, stop func(), err error) {
	if err := c.allow(ctx, name, "forward "+forage.ForwardAgent, "", false); err != nil {
		return nil, nil, err
	}
	address, stop, err := c.listen(ctx, name, wire.Listen{Agent: true}, "auth-agent@openssh.com", func(string) []byte { return nil })
	return ssh.Marshal(struct{ Name, Value string }{"SSH_AUTH_SOCK", address}), stop, err
}

// listen has the sandbox listen, until stop is called or one of both sides is gone. Each connection there
// becomes a channel to the client, of the kind and with the data.
func (c *client) listen(ctx context.Context, name string, wanted wire.Listen, kind string, data func(address string) []byte) (address string, stop func(), err error) {
	channel, requests, err := c.open(ctx, name, wire.ListenKind, ssh.Marshal(wanted))
	if err != nil {
		return "", nil, err
	}
	said, ok := <-requests
	if !ok || said.Type != wire.ListeningRequest || len(said.Payload) > maxAddress {
		channel.Close()
		return "", nil, errNoAddress
	}
	go ssh.DiscardRequests(requests)
	address = string(said.Payload)
	conns := wire.NewConn(channel, true)
	go func() {
		room := make(chan struct{}, maxForwarded)
		for opened := range conns.Opened() {
			select {
			case room <- struct{}{}:
				go func() {
					defer func() { <-room }()
					c.connect(opened, kind, data(address))
				}()
			default:
				opened.Reject(ssh.ResourceShortage, "too many connections")
			}
		}
	}()
	return address, func() { conns.Close() }, nil
}

// connect leads a connection from inside to the client, which asked for such.
func (c *client) connect(opened ssh.NewChannel, kind string, data []byte) {
	near, fromNear, err := c.conn.OpenChannel(kind, data)
	if err != nil {
		opened.Reject(ssh.ConnectionFailed, "the client refused it")
		return
	}
	far, fromFar, err := opened.Accept()
	if err != nil {
		near.Close()
		go ssh.DiscardRequests(fromNear)
		return
	}
	couple(near, fromNear, far, fromFar)
}

// couple carries bytes between two channels, until both sides have said all or one is gone.
func couple(a ssh.Channel, fromA <-chan *ssh.Request, b ssh.Channel, fromB <-chan *ssh.Request) {
	carry := func(to, from ssh.Channel, requests <-chan *ssh.Request) {
		gone := make(chan struct{})
		go func() {
			ssh.DiscardRequests(requests)
			close(gone)
		}()
		_, _ = io.Copy(to, from)
		_ = to.CloseWrite()
		<-gone
		to.Close()
	}
	var both sync.WaitGroup
	both.Go(func() { carry(a, b, fromB) })
	both.Go(func() { carry(b, a, fromA) })
	both.Wait()
}
