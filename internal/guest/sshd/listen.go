package sshd

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/accept"
	"forage/internal/guest/wire"
)

// listen listens inside for the host, as long as its channel lasts; see wire.ListenKind.
func (s *Server) listen(channel ssh.NewChannel) {
	var wanted wire.Listen
	if ssh.Unmarshal(channel.ExtraData(), &wanted) != nil || wanted.Port > 65535 {
		channel.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	listener, err := listenFor(wanted)
	if err != nil {
		channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer listener.Close()
	defer s.noteListening(listener.Addr())()
	host, requests, err := channel.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	host.SendRequest(wire.ListeningRequest, false, []byte(listener.Addr().String()))
	conn := wire.NewConn(host, false)
	ended := make(chan struct{})
	go func() {
		conn.Wait()
		listener.Close()
		close(ended)
	}()
	accept.Each(ended, listener, func(from net.Conn) {
		go func() {
			channel, requests, err := conn.OpenChannel("connection", nil)
			if err != nil {
				from.Close()
				return
			}
			wire.Join(channel, requests, from, func() { from.(interface{ CloseRead() error }).CloseRead() }) // what has come is written
		}()
	})
	conn.Close()
}

func listenFor(wanted wire.Listen) (net.Listener, error) {
	if !wanted.Agent {
		return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(wanted.Port))))
	}
	var errs []error
	for _, folder := range []string{forage.RunPath, "/run", os.TempDir()} { // the first that can be written
		listener, err := net.Listen("unix", filepath.Join(folder, "ssh-agent-"+rand.Text()))
		if err == nil {
			return listener, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// noteListening remembers a port, until undo.
func (s *Server) noteListening(addr net.Addr) (undo func()) {
	tcp, is := addr.(*net.TCPAddr)
	if !is {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening[tcp.Port] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listening, tcp.Port)
	}
}

// Listens says whether the host had this server listen on a port: no server of the agent's does.
func (s *Server) Listens(port int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listening[port]
}
