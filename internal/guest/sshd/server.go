// Package sshd is the guest's SSH server: programs, terminals, files and connections to servers
// inside, over whatever channel the runtime gave. It logs in holders of the sandbox's keys alone;
// it forwards nothing towards them, neither ports nor agents nor X11. The host itself may have it listen.
//
// Whatever touches files or runs code does so in a confined child. This process
// itself only copies bytes.
package sshd

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"forage/internal/accept"
	"forage/internal/deadline"
	"forage/internal/guest/boot"
	"forage/internal/guest/wire"
)

// Bounds on what clients may hold at once.
const (
	maxConns      = 512 // connections
	maxHandshakes = 64  // of those, not logged in yet
	maxChannels   = 256 // channels of one connection
)

// version begins as OpenSSH's own does: only such servers are told by its client that the output
// has no reader any more (eow@openssh.com), which ends `ssh ... yes | head`.
const version = "SSH-2.0-OpenSSH_forage"

// Options is what a Server needs.
type Options struct {
	Program        string   // path inside of this program, which is also the SFTP server
	HostKey        []byte   // ed25519.PrivateKey; nil where there is no SSH port
	AuthorizedKeys []string // authorized_keys lines (sshd(8)), without options
	Tree           *boot.Tree
	Env            []string // environment of everything started
	Dir            string   // working directory
	// Ready is closed when programs may be started; who logs in before waits.
	Ready <-chan struct{}
}

// Server serves SSH.
type Server struct {
	options Options
	config  *ssh.ServerConfig
	keys    map[string]bool // authorized keys in wire format
	closing chan struct{}

	mu         sync.Mutex
	conns      map[net.Conn]bool // true once logged in
	handshakes int
	terminals  map[*terminal]bool
	listening  map[int]bool // ports that the host asked for
	closed     bool
}

// New makes a server.
func New(options Options) (*Server, error) {
	s := &Server{
		options:   options,
		keys:      make(map[string]bool),
		closing:   make(chan struct{}),
		conns:     make(map[net.Conn]bool),
		terminals: make(map[*terminal]bool),
		listening: make(map[int]bool),
	}
	for i, line := range options.AuthorizedKeys {
		key, _, restrictions, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err == nil && len(restrictions) > 0 {
			err = fmt.Errorf("its options (%s) are not supported", restrictions[0])
		}
		if err != nil {
			return nil, fmt.Errorf("authorized key %d: %w", i+1, err)
		}
		s.keys[string(key.Marshal())] = true
	}
	if len(options.HostKey) == 0 {
		return s, nil
	}
	if len(options.HostKey) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("a host key of %d bytes", len(options.HostKey))
	}
	signer, err := ssh.NewSignerFromKey(ed25519.PrivateKey(options.HostKey))
	if err != nil {
		return nil, err
	}
	s.config = &ssh.ServerConfig{
		Config: wire.Algorithms(),
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !s.keys[string(key.Marshal())] {
				return nil, errors.New("not an authorized key")
			}
			return nil, nil
		},
		MaxAuthTries:  6,
		ServerVersion: version,
	}
	s.config.AddHostKey(signer)
	return s, nil
}

// Serve accepts connections until the listener is closed.
func (s *Server) Serve(listener net.Listener) {
	accept.Each(s.closing, listener, func(conn net.Conn) {
		if s.admit(conn) {
			go s.serve(conn)
		} else {
			conn.Close()
		}
	})
}

// Close ends all connections and hangs up all terminals.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	close(s.closing)
	for conn := range s.conns {
		conn.Close()
	}
	for t := range s.terminals {
		t.master.Close()
	}
}

func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxConns || s.handshakes >= maxHandshakes {
		return false
	}
	s.conns[conn] = false
	s.handshakes++
	return true
}

func (s *Server) loggedIn(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = true
	s.handshakes--
}

func (s *Server) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conns[conn] {
		s.handshakes--
	}
	delete(s.conns, conn)
}

func (s *Server) serve(conn net.Conn) {
	defer s.forget(conn)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(deadline.Answer))
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return
	}
	if kind[0] == wire.Plain {
		conn.SetDeadline(time.Time{})
		s.loggedIn(conn)
		s.channels(wire.NewConn(conn, true).Opened(), true)
		return
	}
	if kind[0] != wire.SSH || s.config == nil {
		return
	}
	client, channels, requests, err := ssh.NewServerConn(wire.Buffered(conn), s.config)
	if err != nil {
		return
	}
	conn.SetDeadline(time.Time{})
	s.loggedIn(conn)
	// No global request is granted: not tcpip-forward, not streamlocal-forward.
	// Refusing keepalive@openssh.com answers it.
	go ssh.DiscardRequests(requests)
	s.channels(channels, false)
	client.Wait()
}

// channels serves those of one connection, which may be the host's own.
func (s *Server) channels(channels <-chan ssh.NewChannel, own bool) {
	open := make(chan struct{}, maxChannels)
	for channel := range channels {
		select {
		case open <- struct{}{}:
			go func() {
				defer func() { <-open }()
				s.channel(channel, own)
			}()
		default:
			channel.Reject(ssh.ResourceShortage, "too many channels")
		}
	}
}

// channel serves one channel, to its end.
func (s *Server) channel(channel ssh.NewChannel, own bool) {
	switch kind := channel.ChannelType(); {
	case kind == "session":
		s.session(channel)
	case kind == "direct-tcpip":
		s.directTCP(channel)
	case kind == "direct-streamlocal@openssh.com":
		s.directUnix(channel)
	case kind == wire.ListenKind && own:
		s.listen(channel)
	default:
		channel.Reject(ssh.UnknownChannelType, "unknown channel type")
	}
}
