package guest_test

import (
	"crypto/ed25519"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"forage/internal/guest/guestclient"
	"forage/internal/guest/wire"
)

func TestOnlyAuthorizedKeys(t *testing.T) {
	sb := up(t, setup{})
	_, private, _ := ed25519.GenerateKey(nil)
	other, err := ssh.NewSignerFromKey(private)
	must(t, err)
	for name, auth := range map[string][]ssh.AuthMethod{
		"another key": {ssh.PublicKeys(other)},
		"a password":  {ssh.Password("")},
		"nothing":     {},
	} {
		if _, err := sb.login(auth...); err == nil {
			t.Errorf("%s lets in", name)
		}
	}
}

// What is not offered is refused, and nothing breaks.
func TestRefusals(t *testing.T) {
	sb := up(t, setup{})
	client := sb.rawClient()
	for _, request := range []string{"tcpip-forward", "streamlocal-forward@openssh.com", "nonsense"} {
		if ok, _, err := client.SendRequest(request, true, nil); ok || err != nil {
			t.Errorf("%s: %v %v", request, ok, err)
		}
	}
	for _, kind := range []string{"x11", "forwarded-tcpip", "tun@openssh.com", "direct-tcpip", "direct-streamlocal@openssh.com"} {
		if _, _, err := client.OpenChannel(kind, nil); err == nil {
			t.Errorf("a channel of type %s was opened", kind)
		}
	}
	session, err := client.NewSession()
	must(t, err)
	for _, request := range []struct {
		kind    string
		payload []byte
	}{
		{"auth-agent-req@openssh.com", nil},
		{"x11-req", nil},
		{"env", ssh.Marshal(struct{ Name, Value string }{"LD_PRELOAD", "x"})},
		{"env", ssh.Marshal(struct{ Name, Value string }{"LC_", "x"})},
		{"env", nil},
		{"pty-req", nil},
		{"exec", nil},
		{"exec", ssh.Marshal(struct{ Command string }{"a\x00b"})},
		{"subsystem", ssh.Marshal(struct{ Name string }{"netconf"})},
		{"signal", nil},
		{"signal", ssh.Marshal(struct{ Name string }{"KILL"})},
		{"window-change", nil},
		{wire.ExecRequest, nil},
		{wire.ExecRequest, []byte("nonsense")},
		{"nonsense", nil},
	} {
		if ok, err := session.SendRequest(request.kind, true, request.payload); ok || err != nil {
			t.Errorf("%s: %v %v", request.kind, ok, err)
		}
	}
	// The session is still good for a program, but only for one.
	must(t, session.Start("sleep 1000"))
	if err := session.Start("true"); err == nil {
		t.Error("a second program was started in one session")
	}
	if _, _, code := sb.run("true"); code != 0 {
		t.Error("the guest does not work any more")
	}
}

func TestChannelsAreBounded(t *testing.T) {
	sb := up(t, setup{})
	client := sb.rawClient()
	refused := false
	for range 400 {
		if _, _, err := client.OpenChannel("session", nil); err != nil {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("channels without a bound")
	}
	if _, _, code := sb.run("true"); code != 0 {
		t.Error("other connections are not served")
	}
}

// Connections that never log in don't pile up, and don't keep others out for good.
func TestHandshakesAreBounded(t *testing.T) {
	sb := up(t, setup{})
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for range 100 { // a socket may have to hold them all: 128 is the least that kernels allow by default
		conn, err := net.Dial("unix", sb.socket)
		must(t, err)
		conns = append(conns, conn)
	}
	// The last one is closed at once, and not even greeted.
	last := conns[len(conns)-1]
	last.SetReadDeadline(time.Now().Add(patience))
	if greeting, err := io.ReadAll(last); err != nil || len(greeting) > 0 {
		t.Errorf("the connection beyond the bound: %q, %v", greeting, err)
	}
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "others are let in again", func() bool {
		client, err := sb.login(ssh.PublicKeys(sb.signer))
		if err == nil {
			client.Close()
		}
		return err == nil
	})
}

func TestGarbageInsteadOfSSH(t *testing.T) {
	sb := up(t, setup{})
	for _, garbage := range []string{"", "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "sSSH-2.0-x\r\n" + strings.Repeat("\xff", 100000),
		"s" + strings.Repeat("\x00", 1<<20), "p" + strings.Repeat("\x00", 1<<20), "p" + strings.Repeat("\xff", 100)} {
		conn, err := net.Dial("unix", sb.socket)
		must(t, err)
		conn.Write([]byte(garbage))
		conn.Close()
	}
	if _, _, code := sb.run("true"); code != 0 {
		t.Error("the guest does not work any more")
	}
}

// Programs are started only after the init commands, also for early logins.
func TestProgramsWaitForReady(t *testing.T) {
	sb := boot(t, setup{})
	client := sb.dial()
	done := make(chan error, 1)
	go func() {
		_, err := client.Run(t.Context(), guestclient.Command{Argv: []string{"touch", "begun"}}, guestclient.Stdio{})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it ran: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	sb.ready()
	must(t, <-done)
}
