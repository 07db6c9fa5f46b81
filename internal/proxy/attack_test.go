package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"forage/internal/config"
)

// request is one for the upstream server, through the proxy.
func (w *world) request(path, token, more string) string {
	return "GET http://" + w.host() + path + " HTTP/1.1\r\nHost: " + w.host() + "\r\nProxy-Authorization: Bearer " + token + "\r\n" + more + "\r\n"
}

// TestSecondRequestIsAskedAgain: the first request on a connection vouches for no other.
func TestSecondRequestIsAskedAgain(t *testing.T) {
	w := newWorld(t).start()
	for name, second := range map[string]string{
		"another client": w.request("/second", tokenB, ""),
		"wrong":          w.request("/second", "cccccccccccccccccccc", ""),
		"none":           "GET http://" + w.host() + "/second HTTP/1.1\r\nHost: " + w.host() + "\r\n\r\n",
		"two":            w.request("/second", tokenA, "Proxy-Authorization: Bearer "+tokenB+"\r\n"),
		"tunnel":         "CONNECT " + w.host() + " HTTP/1.1\r\nHost: " + w.host() + "\r\nProxy-Authorization: Bearer " + tokenB + "\r\n\r\n",
	} {
		for how, text := range map[string][]string{
			"at once": {w.request("/first", tokenA, "") + second},
			"after":   {w.request("/first", tokenA, ""), second},
		} {
			conn := w.dial()
			io.WriteString(conn, text[0])
			if len(text) > 1 { // wait for the first answer
				conn.Read(make([]byte, 1))
			}
			back := ask(t, conn, strings.Join(text[1:], ""))
			want := "407 Proxy Authentication Required"
			if name == "two" {
				want = "400 Bad Request"
			}
			// Where both came at once, the server may be done with the connection before it has
			// said why.
			if !strings.Contains(back, want) && how == "after" || strings.Contains(back, "saw /second") || strings.Contains(back, "200 Connection") {
				t.Errorf("%s, %s: got %q", name, how, back)
			}
		}
	}
	if _, reached := w.seen.Load("/second"); reached {
		t.Error("the second request was served")
	}
	w.wantDenial("on a connection of a: the request is of another client than the connection")
	if len(w.events("b")) > 0 {
		t.Errorf("something was done in the name of the other client: %+v", w.events("b"))
	}
}

// TestSlowHead: who takes too long to say who it is has lost its turn.
func TestSlowHead(t *testing.T) {
	w := newWorld(t)
	options := w.options()
	options.headTimeout = 200 * time.Millisecond
	s, err := start(options)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	defer s.close()
	slow := w.dial()
	text := w.request("/slow", tokenA, "")
	for i := range text[:len(text)-1] {
		if _, err := io.WriteString(slow, text[i:i+1]); err != nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // the attack: a byte now and then
	}
	w.wantDenial("sniff-timeout")
	if _, reached := w.seen.Load("/slow"); reached {
		t.Error("it was served")
	}
}

// TestGuessing: refusals are slowed down, those that give up are counted, and
// the log doesn't grow any faster for it.
func TestGuessing(t *testing.T) {
	w := newWorld(t).start()
	w.s.refusals = rate.NewLimiter(rate.Every(time.Hour), refusalBurst) // none is let in while this test runs, however slow it is
	const guesses = refusalBurst + 60
	for i := range guesses {
		conn := w.dial()
		io.WriteString(conn, w.request("/x", fmt.Sprintf("%020d", i), ""))
		if i >= refusalBurst { // the attacker does not wait
			conn.Close()
		}
	}
	eventually(t, "all of the burst is in the log", func() bool { return len(w.denials()) >= refusalBurst })
	if status, _, err := w.get(w.client("a", tokenA), "/x"); status != http.StatusOK || err != nil {
		t.Errorf("a client meanwhile: %d, %v", status, err)
	}
	if recorded := len(w.denials()); recorded != refusalBurst {
		t.Errorf("%d of %d guesses were refused at once, want %d", recorded, guesses, refusalBurst)
	}
}

// listed is a listener on which all connections are there already.
type listed struct {
	net.Listener
	conns []net.Conn
}

func (l *listed) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	conn := l.conns[0]
	l.conns = l.conns[1:]
	return conn, nil
}

// TestTheFirstHasToGo: room is made by who came first, not by who was greeted first.
func TestTheFirstHasToGo(t *testing.T) {
	const room = 50
	s := &Service{options: Options{headTimeout: patience}, pending: newPending(room)}
	var conns, clients []net.Conn
	for range 2 * room {
		client, conn := net.Pipe()
		conns, clients = append(conns, conn), append(clients, client)
	}
	s.accept(&listed{conns: conns}, config.ProxyListen{Kind: config.ListenTCP})
	for i, client := range clients {
		client.SetDeadline(time.Now().Add(patience))
		_, err := client.Write([]byte("G"))
		if stays := i >= room; stays != (err == nil) {
			t.Errorf("connection %d: %v; want it open: %t", i, err, stays)
		}
	}
	s.pending.close()
	s.running.Wait()
}
