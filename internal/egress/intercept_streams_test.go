package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"forage/internal/audit"
)

// The first event of a stream arrives before the second is sent, in every
// pair of protocols.
func TestInterceptedEvents(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
		next := make(chan struct{})
		s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
		}))
		res, err := s.client(http2).Get("https://a.example/events")
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(res.Body)
		for i := range 3 {
			expectLine(t, body, fmt.Sprintf("data: %d\n", i))
			next <- struct{}{}
		}
		res.Body.Close()
	}
}

// Both sides of a stream of gRPC wait for a whole message of the other. One that ends as the secret
// begins does not wait for more.
func TestPingPongWithASecret(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "restricted", "a.example"), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "", "a.example")
	})
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		asked := bufio.NewReader(r.Body)
		for {
			line, err := asked.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(w, strings.TrimSuffix(line, "\n"))
			w.(http.Flusher).Flush()
		}
	}))
	out, in := io.Pipe()
	r, _ := http.NewRequest("POST", "https://a.example/stream", out)
	res, err := s.client(true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for length := range len(testSecret) / 4 {
		message := fmt.Sprintf("\x00\x00\x00\x00%c%s", length, testSecret[:length])
		io.WriteString(in, message+"\n")
		got := make([]byte, len(message))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != message {
			t.Errorf("%q, %v", got, err)
		}
	}
	io.WriteString(in, "all of it: "+testSecret+"\n")
	in.Close()
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "all of it: "+strings.Repeat("*", len(testSecret)) {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestInterceptedWebSocket(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	s.serveTLS(public+":443", upgrader("websocket"))
	conn, r := s.secure("a.example")
	io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	frame := "\x81\x05hello\r\n\r\n"
	for range 3 {
		io.WriteString(conn, frame)
		got := make([]byte, len(frame))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != frame {
			t.Errorf("%q, %v", got, err)
		}
	}
	conn.Close()
	if e := s.closed(audit.HTTP); e.Status != 101 || e.BytesIn < 33 || e.BytesOut != 33 {
		t.Errorf("%+v", e)
	}
}

// A client that asks before it sends its body hears from the server.
func TestInterceptedContinue(t *testing.T) {
	for _, outside := range [][]string{nil, {"http/1.1"}} {
		s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
		s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/no" {
				w.WriteHeader(http.StatusExpectationFailed)
				return
			}
			io.Copy(w, r.Body)
		}), outside...)
		s.engine.http.out.Load().ExpectContinueTimeout = patience // on a slow machine a second is over before the server is heard
		conn, r := s.secure("a.example")
		io.WriteString(conn, "POST /yes HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		expectLine(t, r, "HTTP/1.1 100 Continue\r\n")
		expectLine(t, r, "\r\n")
		io.WriteString(conn, "hello")
		if status, body := get(t, r, "POST"); status != 200 || body != "hello" {
			t.Errorf("%d, %q", status, body)
		}
		io.WriteString(conn, "POST /no HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		if status, _ := get(t, r, "POST"); status != http.StatusExpectationFailed {
			t.Errorf("%d", status)
		}
	}
}

func TestInterceptedTrailers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, outside := range [][]string{nil, {"http/1.1"}} {
			s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
			s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Trailer", "X-Told")
				io.WriteString(w, "body")
				w.Header().Set("X-Told", r.Trailer.Get("X-Sum"))
				w.Header().Set(http.TrailerPrefix+"X-Untold", "too")
			}), outside...)
			r, _ := http.NewRequest("POST", "https://a.example/", io.NopCloser(strings.NewReader("hello")))
			r.Trailer = http.Header{"X-Sum": []string{"5"}}
			r.ContentLength = -1
			res, err := s.client(http2).Do(r)
			if _, body := answer(t, res, err); body != "body" || res.Trailer.Get("X-Told") != "5" || res.Trailer.Get("X-Untold") != "too" {
				t.Errorf("HTTP/2 %v, %v: %q, %v", http2, outside, body, res.Trailer)
			}
		}
	}
}

// What is compressed stays as it is.
func TestInterceptedEncoding(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("hello", 1000))
	z.Close()
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		w.Write(packed.Bytes())
	}))
	for _, encoding := range []string{"gzip", ""} {
		r, _ := http.NewRequest("GET", "https://a.example/", nil)
		if encoding != "" {
			r.Header.Set("Accept-Encoding", encoding)
		}
		res, err := s.client(true).Do(r)
		if _, body := answer(t, res, err); body != packed.String() || res.Header.Get("Content-Encoding") != encoding {
			t.Errorf("%d bytes, %v", len(body), res.Header)
		}
	}
}
