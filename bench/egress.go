package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is an HTTP server on the host: /big and /small.
type server struct {
	addr string
	http *http.Server
}

func startServer(size int64) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	chunk := make([]byte, 256<<10)
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(chunk[:200]) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		for left := size; left > 0; {
			n, err := w.Write(chunk[:min(left, int64(len(chunk)))])
			if err != nil {
				return
			}
			left -= int64(n)
		}
	})
	s := &server{addr: l.Addr().String(), http: &http.Server{Handler: mux, ErrorLog: nil}}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

func (s *server) close() { _ = s.http.Close() }

func (s *server) port() string {
	_, port, _ := net.SplitHostPort(s.addr)
	return port
}

// place is somewhere to measure from: the front of a command line that gets there, and
// how the server is called there.
type place struct {
	enter func(args ...string) command
	url   string
	err   error
}

// measure runs `bench inside ARGS` there and gives the median of what it reports.
func (p place) measure(args ...string) contestant {
	return func(ctx context.Context) (time.Duration, error) {
		times, err := p.times(ctx, args...)
		return sample{times: times}.median(), err
	}
}

// times runs `bench inside ARGS` there and gives all that it reports.
func (p place) times(ctx context.Context, args ...string) ([]time.Duration, error) {
	if p.err != nil {
		return nil, p.err
	}
	out, err := p.enter(append([]string{insideArgument}, args...)...).output(ctx)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil || len(r.Nanos) == 0 {
		return nil, fmt.Errorf("measuring inside: %w: %q", err, out)
	}
	times := make([]time.Duration, len(r.Nanos))
	for i, n := range r.Nanos {
		times[i] = time.Duration(n)
	}
	return times, nil
}

// egress compares the way out of a sandbox with having no sandbox, and with the two
// network stacks in user space that rootless containers use.
func (b *bench) egress(ctx context.Context) ([]row, error) {
	insider, err := b.insider(b.project)
	if err != nil {
		return nil, err
	}
	const name = "bench-egress"
	return b.withSandbox(ctx, name, []string{"--network", "restricted", "--allow", host + ":8080", "--allow", host + ":80"}, func() ([]row, error) {
		ours := place{url: "http://" + host + ":8080", enter: b.inSandbox(name)}
		direct := place{url: "http://" + b.server.addr, enter: func(args ...string) command { return b.peer(append([]string{insider}, args...)...) }}
		relay, stopRelay := b.relay(ctx, insider)
		defer stopRelay()
		slirp, stopSlirp := b.slirp(ctx, insider)
		defer stopSlirp()
		peers := []peerPlace{{"a direct connection", direct}, {"a bare relay (io.Copy) on the host", relay}, {"pasta", b.pasta(insider)}, {"slirp4netns", slirp}}
		return slices.Concat(b.downloads(ctx, ours, peers), b.requests(ctx, ours, peers)), nil
	})
}

// peerPlace is a place with its name in the table.
type peerPlace struct {
	name string
	place
}

// insider puts the measuring program into dir, the workspace of a sandbox.
func (b *bench) insider(dir string) (string, error) {
	raw, err := os.ReadFile(b.self)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, insiderName)
	return path, os.WriteFile(path, raw, 0o755)
}

const insiderName = "bench-inside"

// inSandbox is how a place in a running sandbox is entered.
func (b *bench) inSandbox(name string) func(args ...string) command {
	return func(args ...string) command {
		return b.forage(append([]string{"exec", name, "--", "/workspace/" + insiderName}, args...)...)
	}
}

func (b *bench) downloads(ctx context.Context, ours place, peers []peerPlace) []row {
	turns := []contestant{ours.measure("download", ours.url+"/big"), ours.measure("proxied", ours.url+"/big")}
	for _, p := range peers {
		turns = append(turns, p.measure("download", p.url+"/big"))
	}
	s := interleave(ctx, max(3, b.o.runs/6), turns...)
	what := fmt.Sprintf("download of %d MiB", b.o.size>>20)
	var rows []row
	for i, p := range peers {
		goal := noGoal
		if i == 0 {
			goal = atLeast(0.8)
		}
		rows = append(rows, b.throughput(what+", redirected, and "+p.name, s[0], s[2+i], goal))
	}
	return append(rows, b.throughput(what+", explicit proxy, and "+peers[0].name, s[1], s[2], noGoal))
}

// throughput is compare for the speed of downloads.
func (b *bench) throughput(what string, ours, peer sample, goal func(float64) string) row {
	r := compare(what, ours, peer, noGoal)
	speed := func(s sample) string {
		if s.median() == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f GB/s", float64(b.o.size)/float64(s.median()))
	}
	r.ours, r.peer = speed(ours), speed(peer)
	if r.ratio != "" {
		ratio := float64(peer.median()) / float64(ours.median())
		r.ratio, r.target = fmt.Sprintf("%.3g", ratio), goal(ratio)
	}
	return r
}

func (b *bench) requests(ctx context.Context, ours place, peers []peerPlace) []row {
	var rows []row
	for _, kind := range []struct{ arg, what string }{
		{"connect", "small request, a connection each"},
		{"lookup", "small request, a connection and a lookup each"},
		{"keep", "small request, one connection"},
	} {
		of := func(p place) contestant { return p.measure(kind.arg, p.url+"/small", "200") }
		turns := []contestant{of(ours)}
		for _, p := range peers {
			turns = append(turns, of(p.place))
		}
		s := interleave(ctx, max(3, b.o.runs/6), turns...)
		for i, p := range peers {
			r := compare(kind.what+", and "+p.name, s[0], s[1+i], noGoal)
			if r.ratio != "" {
				r.note = "adds " + short(s[0].median()-s[1+i].median())
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// relay starts a process between the server and a client on the host: what passing bytes
// on costs at the least, on as many processors as there are.
func (b *bench) relay(ctx context.Context, insider string) (place, func()) {
	nobody := func() {}
	cmd := b.peer(insider, insideArgument, "relay", b.server.addr).cmd(ctx)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return place{err: err}, nobody
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return place{err: err}, nobody
	}
	return place{url: "http://" + strings.TrimSpace(addr), enter: func(args ...string) command {
		return b.peer(append([]string{insider}, args...)...)
	}}, stop
}

// pasta starts passt's pasta for each measurement; it maps the default gateway's address
// to the host's loopback.
func (b *bench) pasta(insider string) place {
	gateway, err := defaultGateway()
	if err != nil {
		return place{err: fmt.Errorf("pasta needs a default route: %w", err)}
	}
	return place{url: "http://" + net.JoinHostPort(gateway, b.server.port()), enter: func(args ...string) command {
		return b.peer(append([]string{"pasta", "--config-net", "--quiet", "--ipv4-only", "--", insider}, args...)...)
	}}
}

// slirp starts one namespace with slirp4netns, which calls the host's loopback 10.0.2.2.
func (b *bench) slirp(ctx context.Context, insider string) (place, func()) {
	nobody := func() {}
	sleeper := b.peer("unshare", "--user", "--map-root-user", "--net", "sleep", "infinity").cmd(ctx)
	if err := sleeper.Start(); err != nil {
		return place{err: err}, nobody
	}
	stopSleeper := func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }
	pid := strconv.Itoa(sleeper.Process.Pid)
	if err := waitFor(ctx, "the namespace", func() bool { return otherNamespace(pid) }); err != nil {
		stopSleeper()
		return place{err: err}, nobody
	}
	ready, write, err := os.Pipe()
	if err != nil {
		stopSleeper()
		return place{err: err}, nobody
	}
	stack := b.peer("slirp4netns", "--configure", "--mtu=65520", "--ready-fd=3", pid, "tap0").cmd(ctx)
	stack.ExtraFiles = []*os.File{write}
	err = stack.Start()
	write.Close()
	stop := func() {
		if stack.Process != nil {
			_ = stack.Process.Kill()
			_ = stack.Wait()
		}
		stopSleeper()
	}
	if err == nil {
		_, err = io.ReadFull(ready, make([]byte, 1))
	}
	ready.Close()
	if err != nil {
		stop()
		return place{err: fmt.Errorf("slirp4netns did not start (it needs /dev/net/tun): %w", err)}, nobody
	}
	return place{url: "http://" + net.JoinHostPort("10.0.2.2", b.server.port()), enter: func(args ...string) command {
		return b.peer(append([]string{"nsenter", "--target", pid, "--user", "--net", "--preserve-credentials", insider}, args...)...)
	}}, stop
}

// otherNamespace reports whether a process has left our network namespace.
func otherNamespace(pid string) bool {
	mine, err1 := os.Readlink("/proc/self/ns/net")
	its, err2 := os.Readlink("/proc/" + pid + "/ns/net")
	return err1 == nil && err2 == nil && mine != its
}

// waitFor polls until ok, for a few seconds.
func waitFor(ctx context.Context, what string, ok func() bool) error {
	for range 500 {
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New(what + " did not come up")
}
