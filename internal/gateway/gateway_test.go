package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"forage/internal/sshkeys"
)

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// An address that offers wrong keys is shut out, also with a right one; another is not.
func TestWrongKeys(t *testing.T) {
	host, right := newSigner(t), newSigner(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{
		HostKey: host, Log: slog.New(slog.DiscardHandler),
		Keys: func() ([]string, error) { return []string{sshkeys.Line(right.PublicKey())}, nil },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(t.Context(), listener)
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	login := func(from string, key ssh.Signer) error {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		client, _, _, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{
			User: AnySandbox, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host.PublicKey()),
		})
		if err == nil {
			err = client.Close()
		}
		return err
	}
	for range tries {
		if err := login("127.0.0.1", right); err != nil {
			t.Fatalf("the right key: %v", err)
		}
	}
	refused := 0
	for range 2 * tries { // each of them is counted once it has ended on the server's side
		if err := login("127.0.0.1", newSigner(t)); err == nil {
			t.Fatal("a wrong key logged in")
		} else if !strings.Contains(err.Error(), "unable to authenticate") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no connection was refused before the login")
	}
	if err := login("127.0.0.1", right); err == nil {
		t.Error("the address is not shut out")
	}
	if err := login("127.0.0.2", right); err != nil {
		t.Errorf("another address: %v", err)
	}
}

func TestQuit(t *testing.T) {
	for _, keys := range []string{"q", "abc\x03", strings.Repeat("x", 1000) + "\x04", ""} {
		quit(strings.NewReader(keys)) // returns
	}
	if _, err := sshkeys.ParseAuthorized("no-pty " + sshkeys.Line(newSigner(t).PublicKey())); err == nil {
		t.Error(errors.New("an option that is not ours is taken"))
	}
}
