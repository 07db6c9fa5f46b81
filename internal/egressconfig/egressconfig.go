// Package egressconfig makes what an egress engine needs out of what was planned:
// for the supervisor of a sandbox, and for the proxy that serves without one. It
// starts nothing and decides nothing.
package egressconfig

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	"forage"
	"forage/internal/egress"
	"forage/internal/policy"
)

// Engine is the configuration of the engine of the sandbox, or client, of
// that name: its policy, and the facts of the host's network. Errors are of what the
// user configured, or of reading it.
func Engine(name string, network forage.Network, facts forage.NetworkFacts) (egress.Config, error) {
	rules, err := policy.Compile(network)
	if err != nil {
		return egress.Config{}, err
	}
	config := egress.Config{Sandbox: name, Policy: rules, PrivateHosts: facts.PrivateHosts, Resolve: make(map[string]netip.AddrPort, len(facts.Resolve))}
	for name, address := range facts.Resolve {
		if config.Resolve[name], err = netip.ParseAddrPort(address); err != nil {
			return egress.Config{}, forage.Errorf(forage.ErrUsage, "network.resolve %q: %w", name, err)
		}
	}
	if facts.UpstreamProxy != "" {
		if config.UpstreamProxy, err = url.Parse(facts.UpstreamProxy); err != nil {
			return egress.Config{}, forage.Errorf(forage.ErrUsage, "network.upstreamProxy: %w", err)
		}
	}
	if facts.UpstreamCA != "" {
		if config.RootCAs, err = rootsWith(facts.UpstreamCA); err != nil {
			return egress.Config{}, err
		}
	}
	return config, nil
}

// rootsWith are the host's roots and those in the PEM file at path.
func rootsWith(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading network.upstreamCA: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the host's roots: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, forage.Errorf(forage.ErrUsage, "network.upstreamCA: %s holds no certificate", path)
	}
	return pool, nil
}
