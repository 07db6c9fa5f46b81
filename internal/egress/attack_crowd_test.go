package egress

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"forage/internal/audit"
	"forage/internal/testdir"
)

// crowdVar makes the test binary a crowd of clients, and their servers, so that the memory of
// the process with the engine is the engine's alone.
const crowdVar = "FORAGE_EGRESS_CROWD"

// crowd says what clients do.
type crowd struct {
	Mode    string
	Clients int
	Proxy   string // the engine's explicit proxy
	CA      string // PEM of the sandbox's authority
	Listen  bool   // serve, and say where
}

// streamsEach are the streams of each client that opens many.
const streamsEach = 100

// TestCrowd is the other process of the tests below.
func TestCrowd(t *testing.T) {
	text := os.Getenv(crowdVar)
	if text == "" {
		t.Skip("runs for other tests only")
	}
	var c crowd
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if err := raiseFiles(); err != nil {
		t.Fatal(err)
	}
	if c.Listen {
		c.serve(t)
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	conns := make([]net.Conn, 0, c.Clients)
	for i := range c.Clients {
		conn, err := net.Dial("tcp", c.Proxy)
		if err == nil {
			conn.SetDeadline(time.Now().Add(patience))
			conns = append(conns, conn)
			err = c.attack(conn)
		}
		if err != nil && i < maxConnections { // the others find no room
			fmt.Printf("client %d: %v\n", i, err)
			break
		}
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	for _, conn := range conns {
		conn.Close()
	}
}

// serve listens for echo and for HTTP over TLS, and says where.
func (c crowd) serve(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	cert, _ := certificate(t, "a.example")
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: one\n\n")
			w.(http.Flusher).Flush()
			switch r.URL.Path {
			case "/wait":
				<-r.Context().Done()
			case "/pour":
				for buf := make([]byte, 32<<10); ; {
					if _, err := w.Write(buf); err != nil {
						return
					}
				}
			}
		})}
	go server.ServeTLS(secure, "", "")
	fmt.Println(plain.Addr(), secure.Addr())
}

// connect asks the proxy for a tunnel.
func (c crowd) connect(conn net.Conn, authority string) error {
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	b := make([]byte, 1)
	for head := ""; !strings.HasSuffix(head, "\r\n\r\n"); head += string(b) {
		if _, err := conn.Read(b); err != nil {
			return fmt.Errorf("after %q: %w", head, err)
		}
	}
	return nil
}

// secure asks the proxy for a.example over TLS.
func (c crowd) secure(conn net.Conn, protocol string) (*tls.Conn, error) {
	if err := c.connect(conn, "a.example:443"); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(c.CA))
	secure := tls.Client(conn, &tls.Config{ServerName: "a.example", RootCAs: roots, NextProtos: []string{protocol}})
	return secure, secure.Handshake()
}

// attack does on one connection what the mode says.
func (c crowd) attack(conn net.Conn) error {
	switch c.Mode {
	case "silent":
		return nil
	case "CONNECT":
		return c.connect(conn, "a.example:22")
	case "CONNECT, to be looked into":
		return c.connect(conn, "a.example:443")
	case "a head without end":
		io.WriteString(conn, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: "+strings.Repeat("x", 60<<10)) // may be ended before it is sent
		return nil
	case "a ClientHello without end":
		if err := c.connect(conn, "a.example:443"); err != nil {
			return err
		}
		conn.Write(append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0x7f, 0xfb}, make([]byte, 15<<10)...)) // may be ended before it is sent
		return nil
	case "HTTP/1, then nothing":
		secure, err := c.secure(conn, "http/1.1")
		if err != nil {
			return err
		}
		_, err = io.WriteString(secure, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if err == nil {
			_, err = http.ReadResponse(bufio.NewReader(secure), nil)
		}
		return err
	}
	return c.attackHTTP2(conn)
}

// attackHTTP2 does on a connection of HTTP/2 what the mode says.
func (c crowd) attackHTTP2(conn net.Conn) error {
	secure, err := c.secure(conn, "h2")
	if err != nil {
		return err
	}
	io.WriteString(secure, http2.ClientPreface)
	w := bufio.NewWriterSize(secure, 16<<10)
	framer := http2.NewFramer(w, secure)
	framer.WriteSettings()
	authority := "a.example"
	ask := func(id uint32, path string, end bool, more ...string) {
		var block strings.Builder
		encoder := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", authority}, {":path", path}} {
			encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		for i := 0; i < len(more); i += 2 {
			encoder.WriteField(hpack.HeaderField{Name: more[i], Value: more[i+1]})
		}
		text := []byte(block.String())
		first := text[:min(len(text), 16<<10)]
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(first) == len(text)})
		for rest := text[len(first):]; len(rest) > 0; {
			n := min(len(rest), 16<<10)
			framer.WriteContinuation(id, n == len(rest), rest[:n])
			rest = rest[n:]
		}
	}
	switch c.Mode {
	case "HTTP/2, then nothing":
		ask(1, "/", true)
	case "idle streams":
		for i := range uint32(streamsEach) {
			ask(2*i+1, "/wait", true)
		}
	case "long heads":
		for i := range uint32(streamsEach) {
			ask(2*i+1, "/wait", true, "x", strings.Repeat("~", 40<<10))
		}
	case "streams without end":
		for i := range uint32(streamsEach) {
			ask(2*i+1, "/wait", false)
		}
	case "streams that nobody reads":
		for i := range uint32(streamsEach) {
			ask(2*i+1, "/pour", true)
		}
	case "reset":
		for i := range uint32(20000) {
			ask(2*i+1, "/wait", true)
			framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
	case "denied": // denials wait for their turn
		authority = "b.example"
		for i := range uint32(streamsEach) {
			ask(2*i+1, "/", true)
		}
	case "denied, reset":
		authority = "b.example"
		for i := range uint32(500) {
			ask(2*i+1, "/", true)
			framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
	case "PING":
		for range 50000 {
			framer.WritePing(false, [8]byte{})
		}
	case "SETTINGS":
		for i := range uint32(50000) {
			framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: i * 1000}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: i})
		}
	case "CONTINUATION":
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndStream: true})
		for range 5000 {
			framer.WriteContinuation(1, false, make([]byte, 16<<10))
		}
	case "HPACK": // a long field, once, and then by its number
		var block strings.Builder
		encoder := hpack.NewEncoder(&block)
		for range 20000 {
			encoder.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 4000)})
		}
		for i := range uint32(100) {
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: []byte(block.String())[:16<<10], EndStream: true, EndHeaders: true})
		}
	case "heads of 1 MB":
		for i := range uint32(50) {
			ask(2*i+1, "/", true, "x", strings.Repeat("~", 1<<20))
		}
	default:
		return fmt.Errorf("no such mode: %q", c.Mode)
	}
	if err := w.Flush(); err != nil {
		return nil // it was ended, as it should be
	}
	want := map[string]int{"HTTP/2, then nothing": 1, "idle streams": streamsEach, "streams that nobody reads": streamsEach}[c.Mode]
	for seen := 0; seen < want; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if frame.Header().Type == http2.FrameHeaders {
			seen++
		}
	}
	return nil
}

// raiseFiles lets this process have as many files as it may.
func raiseFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// startCrowd runs the other process, and waits until it has done what it is to do. It
// returns what that said, and what ends it.
func startCrowd(t *testing.T, c crowd) (said string, stop func()) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestCrowd$", "-test.v=false")
	command.Env = append(os.Environ(), crowdVar+"="+string(text), "GODEBUG=")
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		stdin.Close()
		io.Copy(io.Discard, stdout)
		command.Wait()
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		said += lines.Text() + "\n"
	}
	return said, stop
}

// inUse is the memory of this process that is in use, in bytes: heap and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// live is what the last collection has found in use, and stacks, in bytes: unlike inUse it does
// not grow while the watcher below waits for a processor, and others make garbage.
func live() int64 {
	runtime.GC()
	runtime.GC()
	figures := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(figures)
	return int64(figures[0].Value.Uint64() + figures[1].Value.Uint64())
}

// watchMemory looks at the live memory again and again; peak ends that, and returns the most
// that was seen over what there was at first.
func watchMemory() (peak func() int64) {
	idle := live()
	done := make(chan struct{})
	most := make(chan int64)
	go func() {
		for seen := live(); ; seen = max(seen, live()) {
			select {
			case <-done:
				most <- max(seen, live()) - idle
				return
			default:
			}
		}
	}()
	return func() int64 {
		close(done)
		return <-most
	}
}

// mostOverIdle is what an attack may make an engine hold, in bytes.
const mostOverIdle = 64 << 20

// Crowds of clients, and floods of each, cost bounded memory, and nothing of them is left.
func TestCrowds(t *testing.T) {
	if !testdir.Soak() {
		t.Skip("takes minutes: make soak has it")
	}
	if err := raiseFiles(); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	files := int(limit.Cur) - 300
	for _, tt := range []struct {
		mode    string
		clients int
		files   int // of the engine, for each
		peak    int // MiB that may be held meanwhile, not only then; 0 is not measured
	}{
		{"silent", 10000, 1, 0},
		{"CONNECT", 10000, 2, 0},
		{"CONNECT, to be looked into", 10000, 1, 0},
		{"a head without end", 4000, 1, 0},
		{"a ClientHello without end", 4000, 1, 0},
		{"HTTP/1, then nothing", 1000, 2, 0},
		{"HTTP/2, then nothing", 1000, 2, 0},
		{"idle streams", 10, 200, 0},
		{"streams without end", 10, 200, 0},
		{"long heads", 10, 200, 0},
		{"streams that nobody reads", 10, 200, 0},
		{"reset", 4, 100, 64},
		{"denied", 100, 2, 64},
		{"denied, reset", 50, 2, 96},
		{"PING", 4, 100, 0},
		{"SETTINGS", 4, 100, 0},
		{"CONTINUATION", 4, 100, 0},
		{"HPACK", 4, 100, 0},
		{"heads of 1 MB", 4, 100, 0},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			clients := max(min(tt.clients, files/tt.files), 1)
			if clients < tt.clients {
				t.Logf("the limit of open files has room for %d clients of %d", clients, tt.clients)
			}
			said, stopServers := startCrowd(t, crowd{Listen: true})
			defer stopServers()
			var plain, secure string
			if _, err := fmt.Sscan(said, &plain, &secure); err != nil {
				t.Fatal(said, err)
			}
			goroutines := runtime.NumGoroutine()
			s := newCrowdWorld(t, plain, secure)
			idle := inUse()
			peak := func() int64 { return 0 }
			if tt.peak > 0 {
				peak = watchMemory()
			}
			began := time.Now()
			said, stop := startCrowd(t, crowd{Mode: tt.mode, Clients: clients, Proxy: s.proxy.Addr().String(), CA: string(s.authority.PEM())})
			defer stop()
			if said != "" {
				t.Error(said)
			}
			most := peak()
			if most > int64(tt.peak)<<20 {
				t.Errorf("%d MiB over idle meanwhile, may be %d", most>>20, tt.peak)
			}
			var over int64
			eventually(t, "no more is held than may be, once the engine has done what it was sent", func() bool {
				over = inUse() - idle
				return over <= mostOverIdle
			})
			t.Logf("%d clients: %d KiB over idle, %d bytes each, %d KiB at the peak; %v", clients, over>>10, over/int64(clients), most>>10, time.Since(began).Round(time.Millisecond))
			s.stop()
			stop()
			eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
		})
	}
}

// forgetful is an audit log whose memory doesn't count.
type forgetful struct{}

func (forgetful) Record(audit.Event) error { return nil }

// newCrowdWorld is a world whose servers are those of another process.
func newCrowdWorld(t *testing.T, plain, secure string) *secureWorld {
	t.Helper()
	s := newSecureWorld(t, looked(t, inspected("a.example:443"), inspected("a.example:80")), func(c *Config) {
		c.Policy = mustPolicy(t, "restricted", "a.example", "a.example:22")
		c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example")
		c.MaxConnections = maxConnections
		c.SniffTimeout = 10 * time.Minute
		c.RootCAs = nil
		c.Audit = forgetful{} // a slower machine has more to record of a flood
	})
	s.engine.http.outs.Load().secure.TLSClientConfig.InsecureSkipVerify = true // the other process made its own certificate
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[netip.MustParseAddrPort(public+":22")] = plain
	s.servers[netip.MustParseAddrPort(public+":443")] = secure
	return s
}
