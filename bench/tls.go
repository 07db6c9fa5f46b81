package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Names of the TLS server inside a sandbox, one for each way in which egress treats it.
const (
	splicedHost  = "spliced.bench.test"
	inspectHost  = "inspected.bench.test"
	injectedHost = "injected.bench.test"
)

// tlsServer is an HTTPS server on the host: /small, and /stream, which sends a line and stays.
type tlsServer struct {
	addr string
	ca   string // PEM file of the authority that vouches for it
	http *http.Server
}

func startTLSServer(dir string) (*tlsServer, error) {
	certificate, authority, _, err := issueWithKey("127.0.0.1", splicedHost, inspectHost, injectedHost)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	body := make([]byte, 200)
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "data: begun")
		if http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
	})
	s := &tlsServer{addr: l.Addr().String(), ca: filepath.Join(dir, "ca.pem"), http: &http.Server{
		Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, ErrorLog: quiet(),
	}}
	go func() { _ = s.http.ServeTLS(l, "", "") }()
	return s, os.WriteFile(s.ca, authority, 0o644)
}

func (s *tlsServer) close() { _ = s.http.Close() }

// issueWithKey makes a certificate that is its own authority, in memory and as PEM.
func issueWithKey(names ...string) (pair tls.Certificate, certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "forage bench"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return pair, nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair, nil, nil, err
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, certPEM, keyPEM, nil
}

// route is one way to the TLS server, with its name in the table.
type route struct {
	name string
	place
	proxied string // "proxied" to go through the proxy of the environment
}

func (r route) ask(what string, args ...string) []string {
	return append([]string{what, r.url + "/small", r.proxied}, args...)
}

// tls compares HTTPS through egress, in each way that it treats it, with HTTPS directly
// and through proxies that intercept.
func (b *bench) tls(ctx context.Context) (_ []row, err error) {
	insider, err := b.insider(b.project)
	if err != nil {
		return nil, err
	}
	if err := b.writeConfig(true); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.writeConfig(false)) }()
	const name = "bench-tls"
	return b.withSandbox(ctx, name, []string{"-t", benchTemplate}, func() ([]row, error) {
		enter := b.inSandbox(name)
		inside := func(name, host, proxied string) route {
			return route{name, place{url: "https://" + host, enter: enter}, proxied}
		}
		direct := route{"direct", b.onHost(insider, b.tlsServer.ca), "direct"}
		ours := []route{
			inside("spliced", splicedHost, "direct"), inside("explicit proxy", splicedHost, "proxied"),
			inside("intercepted", inspectHost, "direct"), inside("intercepted, secret put in", injectedHost, "direct"),
		}
		peers, stop := b.interceptors(ctx, insider)
		defer stop()
		routes := slices.Concat([]route{direct}, ours, peers)
		rows := slices.Concat(b.latencies(ctx, routes, len(ours)), b.rates(ctx, routes, len(ours)))
		return append(rows, b.streams(ctx, name, ours)...), nil
	})
}

// onHost is a place on the host from which the TLS server is reached directly, or through the
// proxies of env, trusting the authority in the PEM file ca.
func (b *bench) onHost(insider, ca string, env ...string) place {
	return place{url: "https://" + b.tlsServer.addr, enter: func(args ...string) command {
		c := b.peer(append([]string{insider}, args...)...)
		c.env = append(slices.Clone(c.env), append(env, "SSL_CERT_FILE="+ca)...)
		return c
	}}
}

// latencies compares one request after the other on one connection.
func (b *bench) latencies(ctx context.Context, routes []route, ours int) []row {
	got := b.turns(ctx, routes, func(r route) []string { return r.ask("warm", "400") })
	var rows []row
	for i, r := range routes[1:] {
		line := compare("HTTPS request, warm connection, "+r.name+", and direct", got[i+1], got[0], noGoal)
		if line.ratio != "" {
			p50, p99 := got[i+1].median()-got[0].median(), got[i+1].percentile(99)-got[0].percentile(99)
			line.note = fmt.Sprintf("adds %s p50, %s p99", short(p50), short(p99))
			if goal := addedGoals[r.name]; i < ours && goal > 0 {
				line.target = verdict("adds at most "+short(goal)+" p50", p50 <= goal)
			}
		}
		rows = append(rows, line)
	}
	return rows
}

// addedGoals are the goals for what a route adds to the median of a warm request.
var addedGoals = map[string]time.Duration{
	"spliced": 200 * time.Microsecond, "explicit proxy": 200 * time.Microsecond,
	"intercepted": time.Millisecond, "intercepted, secret put in": time.Millisecond,
}

// rates compares requests a second, over 32 connections.
func (b *bench) rates(ctx context.Context, routes []route, ours int) []row {
	got := b.turns(ctx, routes, func(r route) []string { return r.ask("rate", "6000", "32") })
	perSecond := func(s sample) string {
		if s.median() == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f/s", float64(time.Second)/float64(s.median()))
	}
	var rows []row
	for i, r := range routes[1:] {
		line := compare("HTTPS requests a second, 32 connections, "+r.name+", and direct", got[i+1], got[0], noGoal)
		line.ours, line.peer = perSecond(got[i+1]), perSecond(got[0])
		if line.ratio != "" {
			ratio := float64(got[0].median()) / float64(got[i+1].median())
			line.ratio = fmt.Sprintf("%.3g", ratio)
			switch {
			case i >= ours:
			case r.name == "spliced":
				line.target = atLeast(0.8)(ratio)
			case r.name == "intercepted":
				line.target = atLeast(0.4)(ratio)
			}
		}
		rows = append(rows, line)
	}
	return rows
}

// turns lets every route do the same, turn and turn about, and gives each all its times.
func (b *bench) turns(ctx context.Context, routes []route, args func(route) []string) []sample {
	all := make([]sample, len(routes))
	contestants := make([]contestant, len(routes))
	for i, r := range routes {
		contestants[i] = func(ctx context.Context) (time.Duration, error) {
			times, err := r.times(ctx, args(r)...)
			all[i].times = append(all[i].times, times...)
			return 0, err
		}
	}
	for i, s := range interleave(ctx, max(3, b.o.runs/6), contestants...) {
		all[i].err = s.err
	}
	return all
}

// streams holds a thousand answers open at once, and asks what the supervisor's memory has grown
// by.
func (b *bench) streams(ctx context.Context, name string, routes []route) []row {
	var rows []row
	for _, r := range routes {
		if r.proxied == "proxied" {
			continue
		}
		line := row{what: fmt.Sprintf("%d streams at once, %s: until all have begun", streamCount, r.name)}
		took, grown, err := b.holdStreams(ctx, name, r)
		if err != nil {
			line.note = "not measured: " + oneLine(err.Error())
		} else {
			line.ours, line.note = short(took), fmt.Sprintf("%.1f KiB of the supervisor's memory for each", float64(grown)/streamCount)
		}
		rows = append(rows, line)
	}
	return rows
}

const streamCount = 1000

func (b *bench) holdStreams(ctx context.Context, name string, r route) (time.Duration, int64, error) {
	p, err := b.processes(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	before, err := b.pss(p.supervisor)
	if err != nil {
		return 0, 0, err
	}
	cmd := r.enter(insideArgument, "streams", r.url+"/stream", fmt.Sprint(streamCount)).cmd(ctx)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	release, err := cmd.StdinPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	during, pssErr := b.pss(p.supervisor)
	release.Close()
	if err := errors.Join(readErr, pssErr, cmd.Wait()); err != nil {
		return 0, 0, err
	}
	took, err := time.ParseDuration(line[:len(line)-1])
	return took, during - before, err
}
