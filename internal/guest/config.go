package guest

import (
	"net"

	"forage/internal/guest/wire"
)

// ForSSH says of a new connection to the guest that a client of SSH follows, who has to log in.
func ForSSH(conn net.Conn) error { return wire.Dial(conn, wire.SSH) }

// Config is what the host tells a guest to do, once the runtime has built its
// surroundings. It travels in the runtime's boot frame and is never written to disk.
type Config struct {
	Name string `json:"name"`
	// HostKey is the SSH host key: an ed25519.PrivateKey (64 bytes).
	HostKey []byte `json:"hostKey"`
	// AuthorizedKeys are the public keys that may log in (authorized_keys lines, without options).
	AuthorizedKeys []string `json:"authorizedKeys"`
	// Env is the whole environment of whatever is started inside ("K=V").
	Env []string `json:"env"`
	Dir string   `json:"dir"` // working directory
	// Init are shell command lines that run before the session; the first failure ends the start.
	Init []string `json:"init,omitempty"`
	// Command is the agent; with Session it runs in tmux, without it the host asks for it over SSH.
	Command []string `json:"command,omitempty"`
	Session bool     `json:"session,omitempty"`
	// TasksMax bounds processes and threads of the agent's tree; 0 is no bound.
	TasksMax int64 `json:"tasksMax,omitempty"`
	// KillFirst makes the kernel, when the sandbox's memory runs out, end what the agent
	// started before the guest. Set where memory is limited.
	KillFirst bool `json:"killFirst,omitempty"`
}
