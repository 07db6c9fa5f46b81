package wire

import (
	"io"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"
)

// A program that ends at once has been granted, and all that it said arrives, in both directions and
// beyond the window.
func TestChannels(t *testing.T) {
	near, far := net.Pipe()
	host, guest := NewConn(near, false), NewConn(far, true)
	defer host.Close()
	go func() {
		for opened := range guest.Opened() {
			if opened.ChannelType() != "session" {
				opened.Reject(ssh.Prohibited, "no "+string(opened.ExtraData()))
				continue
			}
			go func() {
				channel, requests, _ := opened.Accept()
				<-requests
				channel.(interface{ Reply(bool) error }).Reply(true)
				go io.Copy(channel.Stderr(), io.LimitReader(zeros{}, 3))
				io.Copy(channel, channel)
				channel.Close()
			}()
		}
	}()
	if _, _, err := host.OpenChannel("x11", []byte("screen")); err == nil || err.Error() != `ssh: rejected: administratively prohibited ("no screen")` {
		t.Errorf("a refused channel: %v", err)
	}
	for range 200 {
		channel, requests, err := host.OpenChannel("session", nil)
		if err != nil {
			t.Fatal(err)
		}
		go ssh.DiscardRequests(requests)
		channel.CloseWrite() // it ends at once
		if ok, err := channel.SendRequest("go", true, nil); !ok || err != nil {
			t.Fatalf("got %v, %v", ok, err)
		}
	}
	channel, requests, err := host.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	channel.SendRequest("go", false, nil)
	const sent = 3*window + 5
	go func() { io.Copy(channel, io.LimitReader(zeros{}, sent)); channel.CloseWrite() }()
	if n, err := io.Copy(io.Discard, channel); n != sent || err != nil {
		t.Errorf("%d bytes of %d came back, %v", n, sent, err)
	}
}

// Questions that this end never answers end the connection before it has kept many.
func TestQuestions(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	guest := NewConn(far, true)
	go func() {
		channel := <-guest.Opened()
		_, requests, _ := channel.Accept()
		ssh.DiscardRequests(requests)
	}()
	host := NewConn(near, false)
	asking, _, err := host.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for asking.(*channel).send(frameRequest, ssh.Marshal(requestBody{true, "question", nil})) == nil {
		sent++
	}
	if sent > 2*maxWaiting {
		t.Errorf("%d questions were taken", sent)
	}
}

// A guest that refuses with half a sentence, or keeps a channel open that the host has closed, keeps
// nothing of the host waiting.
func TestHostileGuest(t *testing.T) {
	head := func(kind, length byte) []byte { return []byte{kind, 0, 0, 0, 1, 0, 0, 0, length} }
	for name, says := range map[string][]byte{
		"half a refusal":             head(frameRefused, 0),
		"half a refusal after a yes": append(head(frameOpened, 0), head(frameRefused, 0)...),
		"an open end":                append(append(head(frameOpened, 0), head(frameData, 1)...), 'x'),
	} {
		near, far := net.Pipe()
		host := NewConn(near, false)
		go func() {
			io.ReadFull(far, make([]byte, headSize+len("    session")))
			go io.Copy(io.Discard, far)
			far.Write(says)
		}()
		if channel, _, err := host.OpenChannel("session", nil); err == nil {
			if name == "an open end" {
				channel.Read(make([]byte, 1))
				channel.Close()
			}
			io.Copy(io.Discard, channel)
		}
		host.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
