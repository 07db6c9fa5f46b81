package egressconfig

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"

	"forage"
)

// HostClient is a client for the host's own requests, by the facts of its network: it dials what
// they name, trusts what they trust, and leaves through their proxy, or that of the caller's
// environment.
func HostClient(facts forage.NetworkFacts) (*http.Client, error) {
	config, err := Engine("", forage.Network{}, facts)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{RootCAs: config.RootCAs},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if pinned, ok := config.Resolve[address]; ok {
				address = pinned.String()
			}
			return dialer.DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
	}
	if config.UpstreamProxy != nil {
		transport.Proxy = func(r *http.Request) (*url.URL, error) {
			if _, pinned := config.Resolve[r.URL.Host]; pinned {
				return nil, nil
			}
			return config.UpstreamProxy, nil
		}
	}
	return &http.Client{Transport: transport}, nil
}
