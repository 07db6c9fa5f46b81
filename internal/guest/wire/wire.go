// Package wire is what the guest and the host's client agree on beyond the SSH standards: SSH's
// channels over a socket that needs no encryption (Conn), a request that starts a program from an
// exact argv, and the names of signals.
package wire

import "golang.org/x/crypto/ssh"

// Channel requests of a session that only Forage's own client sends.
const (
	// ExecRequest starts a program; its payload is Exec.Marshal's, or the last
	// part of it.
	ExecRequest = "exec-argv@forage"
	// ExecPartRequest carries a part of a payload that is too long for one packet.
	// It wants no reply.
	ExecPartRequest = "exec-argv-part@forage"
	// EndOfWrite says that the client reads the program's stdout no more
	// (OpenSSH's PROTOCOL, 2.1).
	EndOfWrite = "eow@openssh.com"
)

// ListenKind is a kind of channel that only Forage's own client opens: the guest listens inside for as
// long as it lasts. Its first request, ListeningRequest, has the address. The channel then carries a
// Conn, in which the guest opens a channel for each connection. So the guest opens nothing that the
// host has not asked for.
const (
	ListenKind       = "listen@forage"
	ListeningRequest = "listening@forage"
)

// Listen is the data of a ListenKind channel.
type Listen struct {
	Agent bool   // on a new unix socket, for an SSH agent
	Port  uint32 // otherwise on this port of the loopback; 0 is any
}

// PartSize is how long one part of an Exec payload may be, in bytes: a packet
// holds 256 KiB with everything around it.
const PartSize = 192 << 10

// Algorithms are what the SSH server accepts: what a stock OpenSSH client prefers, the quickest
// first.
func Algorithms() ssh.Config {
	return ssh.Config{
		KeyExchanges: []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeECDHP256},
		Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES256CTR},
		MACs:         []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM},
	}
}
