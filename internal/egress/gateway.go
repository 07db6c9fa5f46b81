package egress

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"forage"
	"forage/internal/policy"
)

// serveGateway serves a request for the proxy's own address: the first part of
// its path stands for a host that is reached over TLS, so that a client that can be told a base URL
// needs to trust no certificate of ours.
func (h *httpSide) serveGateway(w http.ResponseWriter, r *http.Request, s *session) {
	name, rest := cutGateway(r.URL.EscapedPath())
	host, port, ok := h.e.secrets.Load().Gateway(name)
	if !ok || !isGateway(r.Host) {
		h.notProxied(w, r, s)
		return
	}
	to, addr, err := policy.ParseHost(host)
	path, pathErr := url.PathUnescape(rest)
	if err != nil || pathErr != nil {
		h.notProxied(w, r, s)
		return
	}
	target := h.e.pins.request(policy.Request{Host: to, Addr: addr, Port: port})
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath = path, rest
	out.Header.Del("Upgrade-Insecure-Requests")
	scheme := "https"
	if isOwnService(target) && port != tlsPort {
		scheme = "http"
	}
	h.pass(w, out, &exchange{s: s, to: target, host: target, scheme: scheme})
}

// cutGateway cuts the first part off a path.
func cutGateway(path string) (name, rest string) {
	name, rest, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !found {
		return name, "/"
	}
	return name, "/" + rest
}

// isGateway says whether a Host is the proxy's own address: a page in a browser
// inside, which a name of its own has led here, is not to use it (DNS rebinding).
func isGateway(host string) bool {
	to, err := policy.ParseAuthority(host, httpPort)
	if err != nil || to.Port != forage.ProxyPort {
		return false
	}
	return to.Host == "localhost" || to.Addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || to.Addr == netip.IPv6Loopback()
}
