package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// insideArgument makes the program the one that measures from where a contestant
// is: in a sandbox, in a peer's namespace, or on the host.
const insideArgument = "inside"

// report is what it prints: nanoseconds of each thing it did.
type report struct {
	Nanos []int64 `json:"nanos"`
	Bytes int64   `json:"bytes,omitempty"`
}

// inside does what args say and returns the exit code.
func inside(args []string) int {
	r, err := insideReport(args)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench inside:", err)
		return 1
	}
	return 0
}

func insideReport(args []string) (report, error) {
	switch {
	case len(args) == 2 && args[0] == "relay":
		return report{}, relay(args[1])
	case len(args) == 2 && args[0] == "download":
		return download(args[1], false)
	case len(args) == 2 && args[0] == "proxied":
		return download(args[1], true)
	case len(args) == 3 && args[0] == "connect":
		c, err := knowing(args[1])
		if err != nil {
			return report{}, err
		}
		return requests(c, args[1], args[2])
	case len(args) == 3 && args[0] == "lookup":
		return requests(client(false, true), args[1], args[2])
	case len(args) == 3 && args[0] == "keep":
		return requests(client(false, false), args[1], args[2])
	case len(args) == 4 && args[0] == "warm":
		return warm(args[1], args[2] == "proxied", args[3])
	case len(args) == 5 && args[0] == "rate":
		return rate(args[1], args[2] == "proxied", args[3], args[4])
	case len(args) == 3 && args[0] == "streams":
		return report{}, streams(args[1], args[2])
	case len(args) > 1 && args[0] == "time":
		return timeCommand(args[1:])
	}
	return report{}, errors.New("usage: inside download URL | proxied URL | connect URL N | lookup URL N | keep URL N | warm URL direct|proxied N | rate URL direct|proxied N CONNECTIONS | streams URL N | time COMMAND ARGUMENT | relay ADDRESS")
}

// client asks over one connection, or a new one for each request.
func client(proxied, fresh bool) *http.Client {
	t := &http.Transport{DisableKeepAlives: fresh, DisableCompression: true, ReadBufferSize: 64 << 10}
	if proxied { // for loopback too, which http.ProxyFromEnvironment leaves out
		t.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(os.Getenv("https_proxy")) }
	}
	return &http.Client{Transport: t}
}

// download fetches url once and measures from the first byte of the body.
func download(url string, proxied bool) (report, error) {
	resp, err := client(proxied, true).Get(url)
	if err != nil {
		return report{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return report{}, errors.New(resp.Status)
	}
	start := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 256<<10))
	if err == nil && n != resp.ContentLength {
		err = fmt.Errorf("%d bytes of %d", n, resp.ContentLength)
	}
	return report{Nanos: []int64{time.Since(start).Nanoseconds()}, Bytes: n}, err
}

// knowing is a client that makes a connection for each request, and knows the address of url's host:
// most of a lookup is the client's own work.
func knowing(text string) (*http.Client, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	addrs, err := net.LookupHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	c := client(false, true)
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, net.JoinHostPort(addrs[0], u.Port()))
	}
	return c, nil
}

// requests fetches url n times and measures each whole.
func requests(c *http.Client, url, count string) (report, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return report{}, err
	}
	return repeat(c, url, n, 1)
}

// repeat fetches url n times after a few that are not measured, and measures each whole.
func repeat(c *http.Client, url string, n, unmeasured int) (report, error) {
	var r report
	for i := range n + unmeasured {
		start := time.Now()
		resp, err := c.Get(url)
		if err != nil {
			return r, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			return r, err
		}
		if i >= unmeasured { // the first one is colder than the rest
			r.Nanos = append(r.Nanos, time.Since(start).Nanoseconds())
		}
	}
	return r, nil
}

// timeCommand runs a command once.
func timeCommand(argv []string) (report, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return report{}, fmt.Errorf("%s: %w: %s", argv[0], err, out)
	}
	return report{Nanos: []int64{took.Nanoseconds()}}, nil
}

// relay passes connections on to addr as simply as Go can (io.Copy, which splices), until
// it is killed. It first prints where it listens.
func relay(addr string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		from, err := l.Accept()
		if err != nil {
			return err
		}
		go relayOne(from, addr)
	}
}

func relayOne(from net.Conn, addr string) {
	defer from.Close()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}
