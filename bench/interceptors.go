package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"
)

// interceptors starts the proxies that intercept TLS and are installed: they make
// certificates, decrypt and encrypt again, as egress does where it looks inside.
func (b *bench) interceptors(ctx context.Context, insider string) (routes []route, stop func()) {
	var stops []func()
	for _, start := range []struct {
		name  string
		start func(context.Context) (proxy, error)
	}{{"through mitmproxy", b.mitmproxy}, {"through martian (Go)", b.martian}} {
		p, err := start.start(ctx)
		if err != nil {
			routes = append(routes, route{start.name, place{err: err}, "proxied"})
			continue
		}
		stops = append(stops, p.stop)
		routes = append(routes, route{start.name, b.onHost(insider, p.ca, "https_proxy=http://"+p.addr), "proxied"})
	}
	return routes, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// proxy is a proxy that runs: its address, the PEM file of its authority, and its end.
type proxy struct {
	addr, ca string
	stop     func()
}

// mitmproxy is mitmdump with nothing to do but to intercept.
func (b *bench) mitmproxy(ctx context.Context) (proxy, error) {
	dir := filepath.Join(b.dir, "mitmproxy")
	addr, err := freeAddress()
	if err != nil {
		return proxy{}, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return proxy{}, err
	}
	return b.startProxy(ctx, addr, filepath.Join(dir, "mitmproxy-ca-cert.pem"),
		filepath.Join(peersDir(), "mitmproxy/bin/mitmdump"), "--quiet", "--listen-host", "127.0.0.1", "--listen-port", port,
		"--set", "confdir="+dir, "--set", "ssl_verify_upstream_trusted_ca="+b.tlsServer.ca)
}

// martian is Google's proxy in Go.
func (b *bench) martian(ctx context.Context) (proxy, error) {
	_, authority, key, err := issueWithKey("martian")
	if err != nil {
		return proxy{}, err
	}
	cert, keyFile := filepath.Join(b.dir, "martian.pem"), filepath.Join(b.dir, "martian.key")
	if err := errors.Join(os.WriteFile(cert, authority, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		return proxy{}, err
	}
	var addrs [3]string
	for i := range addrs {
		if addrs[i], err = freeAddress(); err != nil {
			return proxy{}, err
		}
	}
	return b.startProxy(ctx, addrs[0], cert, filepath.Join(peersDir(), "bin/proxy"),
		"-addr", addrs[0], "-api-addr", addrs[1], "-tls-addr", addrs[2], "-cert", cert, "-key", keyFile, "-v", "-1")
}

// startProxy starts a proxy, which trusts our TLS server, and waits until it listens
// and its authority is there.
func (b *bench) startProxy(ctx context.Context, addr, ca string, argv ...string) (proxy, error) {
	if _, err := os.Stat(argv[0]); err != nil {
		return proxy{}, errors.New("it is not installed: run bench/peers.sh")
	}
	c := b.peer(argv...)
	c.env = append([]string{"SSL_CERT_FILE=" + b.tlsServer.ca}, c.env...)
	cmd := c.cmd(ctx)
	if err := cmd.Start(); err != nil {
		return proxy{}, err
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	err := waitFor(ctx, filepath.Base(argv[0]), func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		conn.Close()
		_, err = os.Stat(ca)
		return err == nil
	})
	if err != nil {
		stop()
		return proxy{}, err
	}
	return proxy{addr, ca, stop}, nil
}

// freeAddress is a free address on loopback.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// quiet is for servers whose clients leave in the middle.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
