package sshd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"forage/internal/deadline"
	"forage/internal/guest/wire"
	"forage/internal/unixsock"
)

// directTCP connects to a server on the sandbox's own loopback (RFC 4254, section
// 7.2). Other addresses lead to egress, which is the agent's way out and not the client's.
func (s *Server) directTCP(channel ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(channel.ExtraData(), &target) != nil || target.Port == 0 || target.Port > 65535 {
		channel.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	hosts, err := loopback(target.Host)
	if err != nil {
		channel.Reject(ssh.Prohibited, err.Error())
		return
	}
	dialer := net.Dialer{Timeout: deadline.Answer}
	var conn net.Conn
	for _, host := range hosts {
		if conn, err = dialer.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(int(target.Port)))); err == nil {
			break
		}
	}
	relay(channel, conn, err)
}

// loopback are the addresses that host stands for.
func loopback(host string) ([]string, error) {
	if strings.EqualFold(host, "localhost") {
		return []string{"127.0.0.1", "::1"}, nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Unmap().IsLoopback() || addr.Zone() != "" {
		return nil, errors.New("only localhost can be forwarded to")
	}
	return []string{addr.Unmap().String()}, nil
}

// directUnix connects to a unix socket inside (OpenSSH's PROTOCOL, 2.4).
func (s *Server) directUnix(channel ssh.NewChannel) {
	var target struct {
		Path     string
		Reserved string
		Zero     uint32
	}
	if ssh.Unmarshal(channel.ExtraData(), &target) != nil || !strings.HasPrefix(target.Path, "/") {
		channel.Reject(ssh.ConnectionFailed, "malformed request: an absolute path is needed")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline.Answer)
	defer cancel()
	conn, err := unixsock.Dial(ctx, target.Path)
	relay(channel, conn, err)
}

// relay copies both ways until both ends have said all.
func relay(channel ssh.NewChannel, conn net.Conn, err error) {
	if err != nil {
		channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	client, requests, err := channel.Accept()
	if err != nil {
		conn.Close()
		return
	}
	wire.Join(client, requests, conn, func() { conn.Close() })
}
