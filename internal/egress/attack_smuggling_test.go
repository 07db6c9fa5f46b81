package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"forage/internal/audit"
	"forage/internal/egress/sniff"
)

// recorder is a server of HTTP/1 that keeps every byte that it is sent.
type recorder struct {
	mu    sync.Mutex
	conns []*bytes.Buffer
}

func (rec *recorder) handle(conn net.Conn) {
	b := &bytes.Buffer{}
	rec.mu.Lock()
	rec.conns = append(rec.conns, b)
	rec.mu.Unlock()
	src := io.TeeReader(conn, lockedWriter{&rec.mu, b})
	r := bufio.NewReader(src)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			io.Copy(io.Discard, src)
			return
		}
		if request.Header.Get("Expect") != "" {
			io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		if request.Method == http.MethodHead {
			answer = strings.TrimSuffix(answer, "ok")
		}
		io.WriteString(conn, answer)
	}
}

func (rec *recorder) secure(cert tls.Certificate) func(net.Conn) {
	return func(conn net.Conn) {
		secure := tlsServer(conn, cert)
		rec.handle(secure)
		secure.Close()
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// heads are the requests in what was recorded, to the strictest reader. What that
// does not take, two servers may read in two ways.
func (rec *recorder) heads(t *testing.T) (heads []string) {
	t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, conn := range rec.conns {
		gate := sniff.NewGate(bytes.NewReader(conn.Bytes()), nil, func(h sniff.Head) error {
			heads = append(heads, h.Method+" "+h.Host+" "+h.Target)
			return nil
		})
		if _, err := io.Copy(io.Discard, gate); err != nil && err != io.ErrUnexpectedEOF {
			t.Errorf("%v in what the server got: %q", err, conn.Bytes())
		}
	}
	return heads
}

// judged are the requests that the audit log says were allowed.
func (w *world) judged() (requests []string) {
	for _, e := range w.log.all() {
		if e.Kind == audit.HTTP && e.Verdict == "allow" && e.Reason == "" {
			requests = append(requests, e.Method+" "+e.Host+" "+e.Path)
		}
	}
	return requests
}

const hiddenRequest = "GET /smuggled HTTP/1.1\r\nHost: b.example\r\n\r\n"

// smuggling is what hides a request in another, or in what two readers take for
// one and for two.
func smuggling() map[string]string {
	post := "POST /x HTTP/1.1\r\nHost: a.example\r\n"
	chunked := post + "Transfer-Encoding: chunked\r\n\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(hiddenRequest))
	attacks := map[string]string{
		"CL.TE":                  post + length + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hiddenRequest,
		"TE.CL":                  post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n2c\r\n" + hiddenRequest + "\r\n0\r\n\r\n",
		"two lengths":            post + "Content-Length: 0\r\n" + length + "\r\n" + hiddenRequest,
		"two equal lengths":      post + length + length + "\r\n" + hiddenRequest,
		"a list of lengths":      post + "Content-Length: 0, 44\r\n\r\n" + hiddenRequest,
		"a hidden length":        post + "Content-Length : 44\r\n\r\n" + hiddenRequest,
		"length in CGI's way":    post + "Content_Length: 44\r\n\r\n" + hiddenRequest,
		"coding in CGI's way":    post + length + "Transfer_Encoding: chunked\r\n\r\n" + hiddenRequest,
		"length in Connection":   post + length + "Connection: Content-Length\r\n\r\n" + hiddenRequest,
		"coding in Connection":   post + "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n2c\r\n" + hiddenRequest + "\r\n0\r\n\r\n",
		"Host in Connection":     "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Host\r\n\r\n",
		"a body of GET":          "GET /x HTTP/1.1\r\nHost: a.example\r\n" + length + "\r\n" + hiddenRequest,
		"a body of HEAD":         "HEAD /x HTTP/1.1\r\nHost: a.example\r\n" + length + "\r\n" + hiddenRequest,
		"a body of OPTIONS *":    "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n" + length + "\r\n" + hiddenRequest,
		"a body of TRACE":        "TRACE /x HTTP/1.1\r\nHost: a.example\r\n" + length + "\r\n" + hiddenRequest,
		"a chunk":                chunked + "2c\r\n" + hiddenRequest + "\r\n0\r\n\r\n",
		"chunk extension":        chunked + "2c;a=b\r\n" + hiddenRequest + "\r\n0\r\n\r\n",
		"extension with LF":      chunked + "2;\nxx\r\n0\r\n\r\n" + hiddenRequest,
		"chunk of LF":            chunked + "0\n\n" + hiddenRequest,
		"chunk of CR":            chunked + "0\r\r\n\r\n" + hiddenRequest,
		"chunk in 0x":            chunked + "0x2\r\nxx\r\n0\r\n\r\n" + hiddenRequest,
		"chunk with space":       chunked + "2 \r\nxx\r\n0\r\n\r\n" + hiddenRequest,
		"chunk with underscore":  chunked + "0_2\r\nxx\r\n0\r\n\r\n" + hiddenRequest,
		"negative chunk":         chunked + "-2\r\nxx\r\n0\r\n\r\n" + hiddenRequest,
		"overflowing chunk":      chunked + "10000000000000002\r\nxx\r\n0\r\n\r\n" + hiddenRequest,
		"chunk too long":         chunked + "2\r\nxxGET / HTTP/1.1\r\n0\r\n\r\n" + hiddenRequest,
		"trailer of LF":          chunked + "0\r\nX: y\n\n" + hiddenRequest,
		"trailer of length":      chunked + "0\r\nContent-Length: 44\r\n\r\n" + hiddenRequest,
		"trailer of coding":      chunked + "0\r\nTransfer-Encoding: chunked\r\n\r\n" + hiddenRequest,
		"trailer without name":   chunked + "0\r\n: y\r\n\r\n" + hiddenRequest,
		"announced trailer":      post + "Trailer: Content-Length, Host, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"coding in HTTP/1.0":     "POST /x HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" + hiddenRequest,
		"obs-fold":               "GET /x HTTP/1.1\r\nHost: a.example\r\nX: y\r\n\tTransfer-Encoding: chunked\r\n\r\n" + hiddenRequest,
		"folded Host":            "GET /x HTTP/1.1\r\nHost:\r\n a.example\r\n\r\n",
		"bare LF":                "GET /x HTTP/1.1\nHost: a.example\n\n" + hiddenRequest,
		"LF in a field":          "GET /x HTTP/1.1\r\nHost: a.example\r\nX: y\nContent-Length: 44\r\n\r\n" + hiddenRequest,
		"CR in a field":          "GET /x HTTP/1.1\r\nHost: a.example\r\nX: y\rContent-Length: 44\r\n\r\n" + hiddenRequest,
		"NUL in a field":         "GET /x HTTP/1.1\r\nHost: a.example\r\nX: y\x00Content-Length: 44\r\n\r\n" + hiddenRequest,
		"CR in a name":           "GET /x HTTP/1.1\r\nHost: a.example\r\nX\r: y\r\n\r\n" + hiddenRequest,
		"a line before":          "\r\n" + hiddenRequest,
		"a space before":         " GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n" + hiddenRequest,
		"two spaces":             "GET  /x HTTP/1.1\r\nHost: a.example\r\n\r\n" + hiddenRequest,
		"tabs":                   "GET\t/x\tHTTP/1.1\r\nHost: a.example\r\n\r\n" + hiddenRequest,
		"a space after":          "GET /x HTTP/1.1 \r\nHost: a.example\r\n\r\n" + hiddenRequest,
		"CR in the target":       "GET /x\rX HTTP/1.1\r\nHost: a.example\r\n\r\n" + hiddenRequest,
		"LF in the target":       "GET /x HTTP/1.1\nHost: b.example\nX: HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"CR LF, escaped":         "GET /x%0d%0aHost:%20b.example%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"HTTP/0.9":               "GET /smuggled\r\n",
		"HTTP/1.2":               "GET /smuggled HTTP/1.2\r\nHost: a.example\r\n\r\n",
		"a second version":       "GET /smuggled HTTP/1.1 HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"a malformed method":     "GET: /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"h2c":                    "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"h2c, then its preface":  "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"an upgrade that fails":  "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + hiddenRequest,
		"an upgrade with a body": "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + length + "\r\n" + hiddenRequest,
		"two upgrades":           "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n" + hiddenRequest,
		"expectation":            post + length + "Expect: 100-continue\r\n\r\n" + hiddenRequest,
		"another expectation":    post + length + "Expect: 200-ok\r\n\r\n" + hiddenRequest,
	}
	for i, coding := range []string{"xchunked", "chunked, identity", "identity", "identity, chunked", "chunked, chunked", "gzip, chunked", `"chunked"`, "chunked;q=1", "chunked ,",
		"", ",", "\x0bchunked", "\x0cchunked", "chunked\x00", "chun ked", "\u017fhunked", "c\u200bhunked", "chunked\r\nTransfer-Encoding: identity", "chunked\r\ntransfer-encoding: chunked"} {
		attacks[fmt.Sprintf("coding %d", i)] = post + "Transfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n" + hiddenRequest
	}
	for i, coding := range []string{"Transfer-Encoding:chunked", "transfer-encoding:\t CHUNKED \t"} { // these are right
		attacks[fmt.Sprintf("good coding %d", i)] = post + coding + "\r\n\r\n2c\r\n" + hiddenRequest + "\r\n0\r\n\r\n"
	}
	for i, n := range []string{"+44", "-44", "0x2c", "4 4", "44,", "44;", "４４", "44.0", "4e1", "99999999999999999999", "", "44\x00"} {
		attacks[fmt.Sprintf("length %d", i)] = post + "Content-Length: " + n + "\r\n\r\n" + hiddenRequest
	}
	return attacks
}

// What reaches a server are the requests that were judged, each once, in bytes that no
// reader can part in another way; on every way in.
func TestSmugglingReachesNobody(t *testing.T) {
	ways := map[string]func(s *secureWorld) (net.Conn, *bufio.Reader){
		"port 80": func(s *secureWorld) (net.Conn, *bufio.Reader) {
			c := s.toName("a.example", 80)
			return c, bufio.NewReader(c)
		},
		"inside TLS": func(s *secureWorld) (net.Conn, *bufio.Reader) { return s.secure("a.example") },
		"proxy":      func(s *secureWorld) (net.Conn, *bufio.Reader) { c := s.connect(s.proxy); return c, bufio.NewReader(c) },
		"gateway":    func(s *secureWorld) (net.Conn, *bufio.Reader) { c := s.connect(s.proxy); return c, bufio.NewReader(c) },
		"tunnel to 80": func(s *secureWorld) (net.Conn, *bufio.Reader) {
			conn, r, _ := s.connectProxy("a.example:80")
			return conn, r
		},
	}
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) {
				c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example")
			})
			rec := &recorder{}
			s.serve(public+":80", rec.handle)
			s.serve(public+":443", rec.secure(s.server))
			asIs := func(text string) string { return text }
			inWay := asIs
			switch way {
			case "proxy":
				inWay = strings.NewReplacer(" /", " http://a.example/").Replace
			case "gateway":
				inWay = strings.NewReplacer(" /", " /model/", "Host: a.example", "Host: 127.0.0.1:18080").Replace
			}
			for name, attack := range smuggling() {
				for _, before := range []string{"", "GET /first HTTP/1.1\r\nHost: a.example\r\n\r\n"} {
					conn, r := open(s)
					go io.WriteString(conn, inWay(before)+inWay(attack)+inWay("GET /last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"))
					if _, err := io.Copy(io.Discard, r); err != nil && strings.Contains(err.Error(), "timeout") {
						t.Errorf("%s: neither refused nor answered", name)
					}
					conn.Close()
				}
			}
			got, judged := rec.heads(t), s.judged()
			slices.Sort(got)
			slices.Sort(judged)
			for i := range got {
				got[i] = strings.TrimSuffix(got[i], "/") // "OPTIONS *" has no path
			}
			for _, head := range got {
				if strings.Contains(head, "smuggled HTTP") || strings.HasSuffix(head, " /smuggled") && !slices.Contains(judged, head) {
					t.Errorf("the server was asked %s", head)
				}
			}
			expectJudged(t, got, judged)
			if len(got) < 20 {
				t.Errorf("the server was asked %q alone", got)
			}
		})
	}
}

// expectJudged wants each request to have been judged, as often as it was made.
func expectJudged(t *testing.T, asked, judged []string) {
	t.Helper()
	judged = slices.Clone(judged)
	for _, head := range asked {
		if i := slices.Index(judged, head); i < 0 {
			t.Errorf("nobody judged %s", head)
		} else {
			judged = slices.Delete(judged, i, i+1)
		}
	}
}

// A request of HTTP/2 becomes one request of HTTP/1 or none.
func TestHTTP2IsNotSmuggled(t *testing.T) {
	start := func(method, path string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "https", ":authority", "a.example", ":path", path}, more...)
	}
	for name, tt := range map[string]struct {
		fields []string
		body   string
		ok     bool
	}{
		"a body":                  {start("POST", "/x"), hiddenRequest, true},
		"a body of GET":           {start("GET", "/x"), hiddenRequest, true},
		"its length":              {start("POST", "/x", "content-length", fmt.Sprint(len(hiddenRequest))), hiddenRequest, true},
		"less than its length":    {start("POST", "/x", "content-length", "100"), hiddenRequest, false},
		"more than its length":    {start("POST", "/x", "content-length", "4"), hiddenRequest, false},
		"no length":               {start("POST", "/x", "content-length", "0"), hiddenRequest, false},
		"two lengths":             {start("POST", "/x", "content-length", "4", "content-length", "44"), hiddenRequest, false},
		"a malformed length":      {start("POST", "/x", "content-length", "+44"), hiddenRequest, false},
		"transfer-encoding":       {start("POST", "/x", "transfer-encoding", "chunked"), "0\r\n\r\n" + hiddenRequest, false},
		"connection":              {start("GET", "/x", "connection", "x-api-key"), "", false},
		"proxy-connection":        {start("GET", "/x", "proxy-connection", "keep-alive"), "", false},
		"keep-alive":              {start("GET", "/x", "keep-alive", "1"), "", false},
		"upgrade":                 {start("GET", "/x", "upgrade", "websocket"), "", false},
		"te":                      {start("GET", "/x", "te", "gzip"), "", false},
		"te: trailers":            {start("GET", "/x", "te", "trailers"), "", true},
		"a name in upper case":    {start("GET", "/x", "X-Upper", "1"), "", false},
		"a name with a space":     {start("GET", "/x", "x y", "1"), "", false},
		"a name with a colon":     {start("GET", "/x", "host: b.example", "1"), "", false},
		"a name with CR LF":       {start("GET", "/x", "x\r\nhost", "b.example"), "", false},
		"an empty name":           {start("GET", "/x", "", "1"), "", false},
		"NUL in a value":          {start("GET", "/x", "x", "\x00"), "", false},
		"LF in a value":           {start("GET", "/x", "x", "y\nhost: b.example"), "", false},
		"a space in the path":     {start("GET", "/x HTTP/1.1"), "", false},
		"CR in the path":          {start("GET", "/x\rhost"), "", false},
		"a path that is another":  {start("GET", "//b.example/smuggled"), "", true}, // is a path all the same
		"CR LF in the method":     {start("GET /smuggled HTTP/1.1\r\nhost: b.example\r\n\r\nGET", "/x"), "", false},
		"a space in the method":   {start("GET /smuggled", "/x"), "", false},
		"an empty method":         {start("", "/x"), "", false},
		"an empty path":           {start("GET", ""), "", false},
		"pseudo-fields at last":   {[]string{":method", "GET", "x", "y", ":scheme", "https", ":authority", "a.example", ":path", "/x"}, "", false},
		"an unknown pseudo-field": {start("GET", "/x", ":status", "200"), "", false},
		"CR LF in :authority":     {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example\r\nx: y", ":path", "/x"}, "", false},
		"CR LF in :scheme":        {[]string{":method", "GET", ":scheme", "https://b.example/\r\n", ":authority", "a.example", ":path", "/x"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			// What is refused halfway reaches the server when it likes: in a world of its own
			// that is nobody else's request.
			s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
			rec := &recorder{}
			s.serve(public+":443", rec.secure(s.server))
			status := s.rawHTTP2("a.example").send(t, tt.body, tt.fields...)
			early := name == "no length" && status == "200" // it is whole before what is too much arrives
			if ok := status == "200"; ok != tt.ok && !early && !(status != "" && status[0] == '4' && !tt.ok) {
				t.Errorf("%q", status)
			}
			s.stop() // now the server has read all that it was sent
			asked := rec.heads(t)
			if tt.ok && len(asked) != 1 || len(asked) > 1 {
				t.Errorf("the server was asked %q", asked)
			}
			if slices.ContainsFunc(asked, func(head string) bool { return strings.HasPrefix(head, "GET b.example") }) {
				t.Errorf("the server was asked %q", asked)
			}
			expectJudged(t, asked, s.judged())
		})
	}
}

// send sends a request with a body and returns the status of its answer; "" is a refusal without
// one.
func (c *rawHTTP2) send(t *testing.T, body string, fields ...string) string {
	t.Helper()
	if body == "" {
		return c.ask(t, fields...)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: block.Bytes(), EndHeaders: true})
	c.WriteData(c.stream, true, []byte(body))
	c.stream += 2
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return ""
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

func tlsServer(conn net.Conn, cert tls.Certificate) *tls.Conn {
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
}
