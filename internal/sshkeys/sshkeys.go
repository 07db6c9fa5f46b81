// Package sshkeys makes and keeps the ed25519 keys that Forage itself uses:
// one client key per state folder, one host key per sandbox. Users' own keys
// are read as public keys only.
package sshkeys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage"
)

// ClientName is the file of the client key in the state folder, in OpenSSH's
// format; its public half is in ClientName + ".pub".
const ClientName = "id_ed25519"

// GatewayName is the file of the gateway's host key in the state folder, as ClientName is.
const GatewayName = "gateway_host_key"

// Client returns the state folder's client key.
func Client(stateDir string) (ssh.Signer, error) { return own(filepath.Join(stateDir, ClientName)) }

// Gateway returns the host key of the state folder's gateway.
func Gateway(stateDir string) (ssh.Signer, error) { return own(filepath.Join(stateDir, GatewayName)) }

// own returns the key in a file, which is made on first use. Processes that make it at the same
// time agree on one.
func own(path string) (ssh.Signer, error) {
	text, err := readPrivate(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeKey(path); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, forage.WithHint(fmt.Errorf("making the key %s: %w", path, err), forage.HintWritableState)
		}
		text, err = readPrivate(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key %s: %w", path, err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, forage.WithHint(fmt.Errorf("reading the key %s: %w", path, err),
			"remove it: a new one is made at the next start")
	}
	return signer, nil
}

// makeKey writes a new key pair. The private half appears whole or not at
// all (link(2) fails when another process was first).
func makeKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { // first of all that is kept
		return err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "forage")
	if err != nil {
		return err
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path))
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(pem.EncodeToMemory(block))
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil {
		return err
	}
	return os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(sshPublic), 0o600)
}

// NewHost makes a host key: an ed25519.PrivateKey, which holds its public half too (64 bytes).
func NewHost() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// HostLine is the public half of a host key, as a line of authorized_keys.
func HostLine(key []byte) (string, error) {
	public, err := ssh.NewPublicKey(ed25519.PrivateKey(key).Public())
	if err != nil {
		return "", err
	}
	return Line(public), nil
}

// Line is a public key as a line of authorized_keys, without its line end.
func Line(key ssh.PublicKey) string {
	return string(bytes.TrimSuffix(ssh.MarshalAuthorizedKey(key), []byte("\n")))
}

// SaveHost keeps a sandbox's host key in path, LoadHost reads it.
func SaveHost(path string, key []byte) error { return os.WriteFile(path, key, 0o600) }

// LoadHost reads the host key that SaveHost kept.
func LoadHost(path string) ([]byte, error) {
	key, err := readPrivate(path)
	if err == nil && len(key) != ed25519.PrivateKeySize {
		err = fmt.Errorf("%s holds %d bytes, not %d", path, len(key), ed25519.PrivateKeySize)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the sandbox's host key: %w", err)
	}
	return key, nil
}

// ReadPublic reads the public keys of a file in the form of authorized_keys.
// A private key is refused: it was surely named by mistake.
func ReadPublic(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, forage.Errorf(forage.ErrUsage, "reading SSH keys: %w", err)
	}
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "%s is a private key", path), "name the .pub file beside it")
	}
	var lines []string
	for len(bytes.TrimSpace(text)) > 0 {
		key, _, _, rest, err := ssh.ParseAuthorizedKey(text)
		if err != nil {
			return nil, forage.Errorf(forage.ErrUsage, "%s holds no SSH public key: %w", path, err)
		}
		lines = append(lines, Line(key))
		text = rest
	}
	if len(lines) == 0 {
		return nil, forage.Errorf(forage.ErrUsage, "%s holds no SSH public key", path)
	}
	return lines, nil
}

// readPrivate reads a key file, which no other user may read or have planted.
func readPrivate(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, err
	}
	if stat.Mode&0o077 != 0 || int(stat.Uid) != os.Getuid() {
		return nil, forage.WithHint(fmt.Errorf("%s is open to other users", path), "chmod 600 it, or remove it so that a new one is made")
	}
	buffer := make([]byte, 16<<10)
	n, err := file.Read(buffer)
	return buffer[:n], err
}

// Authorized is a line of authorized_keys (sshd(8)) with the options that are ours: read-only, and
// sandboxes="PATTERN,..." with patterns of path.Match.
type Authorized struct {
	Public    ssh.PublicKey
	ReadOnly  bool     // its holder may look, and nothing else
	Sandboxes []string // those it is for; none: all
}

// ParseAuthorized reads one line.
func ParseAuthorized(line string) (Authorized, error) {
	public, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err == nil && len(bytes.TrimSpace(rest)) > 0 {
		err = errors.New("more than one line")
	}
	key := Authorized{Public: public}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "read-only":
			key.ReadOnly = true
		case "sandboxes":
			key.Sandboxes = strings.Split(strings.Trim(value, `"`), ",")
			for _, pattern := range key.Sandboxes {
				if _, bad := path.Match(pattern, ""); bad != nil || pattern == "" {
					err = errors.Join(err, fmt.Errorf("sandboxes: %q is not a pattern of names", pattern))
				}
			}
		default:
			err = errors.Join(err, fmt.Errorf("option %.40q: expected read-only or sandboxes=\"NAME,...\"", name))
		}
	}
	return key, err
}

// May says whether the key is for a sandbox.
func (a Authorized) May(sandbox string) bool {
	return len(a.Sandboxes) == 0 || slices.ContainsFunc(a.Sandboxes, func(pattern string) bool {
		ok, _ := path.Match(pattern, sandbox)
		return ok
	})
}

// Fingerprint is the key as audit logs name it.
func (a Authorized) Fingerprint() string { return ssh.FingerprintSHA256(a.Public) }
