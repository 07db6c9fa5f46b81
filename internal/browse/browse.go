// Package browse is about pages of the web that a program inside asks the user to open. Check says
// what may be shown and opened; Ask is the program that asks. Nothing here opens a page.
package browse

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"forage/internal/policy"
)

const (
	// Path is where egress's explicit proxy takes the address of a page, by POST. No service has
	// such a name.
	Path = "/.forage/open"
	// MaxURL bounds an address, in bytes: those of logins have up to 2,000.
	MaxURL = 4096
)

// Page is an address that shows what it is: it has the characters of RFC 3986 alone, and its host
// is in ASCII.
type Page struct {
	URL  string
	Host string // with a port that is not the usual one
	// Local is the port on loopback that the page is at; 0: it is elsewhere.
	Local int
	// Callback is the port on loopback that the page comes back to after a login (RFC 8252,
	// section 7.3); 0 is none.
	Callback int
}

// Check reads an address that came from inside.
func Check(text string) (Page, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" {
		return Page{}, errors.New("only addresses that begin with http:// or https:// can be opened")
	}
	if u.User != nil {
		return Page{}, errors.New("the address has a user name before its host")
	}
	to, err := authority(u)
	if err != nil {
		return Page{}, err
	}
	p := Page{Host: host(to, u.Scheme)}
	u.Host = p.Host
	if p.URL = u.String(); len(p.URL) > MaxURL {
		return Page{}, fmt.Errorf("the address is longer than %d bytes", MaxURL)
	}
	if strings.ContainsFunc(p.URL, func(r rune) bool { return !allowed(r) }) {
		return Page{}, errors.New("the address has characters that have to be written with %")
	}
	if isLoopback(to) {
		p.Local = int(to.Port)
	} else if to.Host == "" && policy.Classify(to.Addr) != policy.Public || to.Host != "" && !strings.Contains(to.Host, ".") {
		return Page{}, fmt.Errorf("%s is in a network of the user's", p.Host)
	}
	if back, err := url.Parse(u.Query().Get("redirect_uri")); err == nil && back.Scheme == "http" {
		if to, err := authority(back); err == nil && isLoopback(to) {
			p.Callback = int(to.Port)
		}
	}
	return p, nil
}

func authority(u *url.URL) (policy.Request, error) {
	return policy.ParseAuthority(u.Host, usual(u.Scheme))
}

func usual(scheme string) uint16 {
	if scheme == "http" {
		return 80
	}
	return 443
}

func host(to policy.Request, scheme string) string {
	if to.Port != usual(scheme) {
		return to.Authority()
	}
	if to.Host == "" && to.Addr.Is6() {
		return "[" + to.Addr.String() + "]"
	}
	return to.Dest()
}

// isLoopback says whether a browser looks for the place on its own machine, where a forwarded port is.
func isLoopback(to policy.Request) bool {
	if to.Host != "" {
		return to.Host == "localhost" || strings.HasSuffix(to.Host, ".localhost")
	}
	return to.Addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || to.Addr == netip.IPv6Loopback() || to.Addr.IsUnspecified()
}

// allowed are the characters of RFC 3986: its reserved and its unreserved ones, and %.
func allowed(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", r)
}

// Port is the port on loopback that opening the page needs, if there is one.
func (p Page) Port() int {
	if p.Local != 0 {
		return p.Local
	}
	return p.Callback
}

// String is the page in a few words.
func (p Page) String() string {
	if p.Local != 0 {
		return "port " + strconv.Itoa(p.Local) + " inside"
	}
	return p.Host
}
