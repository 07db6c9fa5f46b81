package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
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

// TestSmuggling: a request that can be understood in two ways is none, the first on a connection
// too.
func TestSmuggling(t *testing.T) {
	w := newWorld(t).start()
	head := "POST http://" + w.host() + "/smuggled HTTP/1.1\r\nHost: " + w.host() + "\r\nProxy-Authorization: Bearer " + tokenA + "\r\n"
	hidden := w.request("/hidden", tokenB, "")
	for name, text := range map[string]string{
		"CL.TE":               head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"TE.CL":               head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" + hidden + "\r\n0\r\n\r\n",
		"TE.TE":               head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":         head + "Content-Length: 0\r\nContent-Length: 50\r\n\r\n" + hidden,
		"a folded token":      strings.Replace(head, "Bearer ", "Bearer\r\n ", 1) + "\r\n",
		"a bare LF":           strings.Replace(head, "\r\n", "\n", 1) + "\r\n",
		"a space before :":    strings.Replace(head, "Proxy-Authorization:", "Proxy-Authorization :", 1) + "\r\n",
		"NUL in the token":    strings.Replace(head, tokenA, tokenA+"\x00", 1) + "\r\n",
		"a line before":       "\r\n" + head + "\r\n",
		"TLS in the clear":    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"PROXY protocol":      "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + head + "\r\n",
		"another's authority": "GET http://a:" + tokenA + "@" + w.host() + "/smuggled HTTP/1.1\r\nHost: " + w.host() + "\r\n\r\n",
	} {
		back := ask(t, w.dial(), text)
		if !strings.HasPrefix(back, "HTTP/1.1 400 ") && !strings.HasPrefix(back, "HTTP/1.1 407 ") || strings.Count(back, "HTTP/1.1") != 1 {
			t.Errorf("%s: got %q", name, back)
		}
	}
	for _, path := range []string{"/smuggled", "/hidden"} {
		if _, reached := w.seen.Load(path); reached {
			t.Errorf("%s was served", path)
		}
	}
}

// TestGiantHead: it is refused before it costs much.
func TestGiantHead(t *testing.T) {
	w := newWorld(t).start()
	giant := w.dial()
	go io.WriteString(giant, w.request("/giant", tokenA, "X: "+strings.Repeat("x", 4<<20)+"\r\n")) // fails when the connection is closed
	back, _ := io.ReadAll(giant)
	if len(back) > 0 && !strings.HasPrefix(string(back), "HTTP/1.1 400 ") {
		t.Errorf("got %q", back)
	}
	w.wantDenial("too long a head")
	if _, reached := w.seen.Load("/giant"); reached {
		t.Error("it was served")
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

// TestIdleConnections: a thousand connections that say nothing neither cost
// much nor keep out who has something to say, and leave nothing.
func TestIdleConnections(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t)
	s, err := start(w.options())
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	var idle []net.Conn
	for range 1000 {
		conn, err := net.Dial("tcp", w.s.listeners["127.0.0.1:0"].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	if status, _, err := w.get(w.client("a", tokenA), "/x"); status != http.StatusOK || err != nil {
		t.Errorf("a client among them: %d, %v", status, err)
	}
	eventually(t, "the oldest are sent away", func() bool {
		w.s.pending.mu.Lock()
		defer w.s.pending.mu.Unlock()
		return w.s.pending.guests.Len() <= maxPending && runtime.NumGoroutine() < before+2*maxPending+100
	})
	idle[0].SetReadDeadline(time.Now().Add(patience))
	if _, err := idle[0].Read(make([]byte, 1)); err == nil {
		t.Error("the oldest got an answer")
	}
	for _, conn := range idle {
		conn.Close()
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	w.upstream.Close()
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+10 })
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
