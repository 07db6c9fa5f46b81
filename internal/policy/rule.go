package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"forage"
)

var errEntryForm = errors.New("expected host, host:port, *.suffix, *.suffix:port, address, address:port or [v6]:port")

// target is what the host of a rule or an entry of an allow list means: a
// name, everything below one, or an address.
type target struct {
	name string // canonical
	sub  bool   // every name below
	addr netip.Addr
	port uint16 // 0: any
}

// parseTarget reads an entry of an allow list.
func parseTarget(text string) (target, error) {
	if err := checkEntryForm(text); err != nil {
		return target{}, err
	}
	host, port, err := splitEntry(text)
	if err != nil {
		return target{}, err
	}
	if addr, ok := ParseAddr(host); ok {
		return target{addr: addr, port: port}, checkAddr(host, addr, port)
	}
	suffix, sub := strings.CutPrefix(host, "*.")
	name, err := Canonical(suffix)
	if err != nil {
		return target{}, err
	}
	t := target{name: name, sub: sub, port: port}
	return t, t.checkName()
}

func checkEntryForm(text string) error {
	switch {
	case strings.Contains(text, "://"):
		return errors.New("expected a host, not a URL")
	case strings.Contains(text, "/"):
		return errors.New("expected a host, without a path; a range of addresses can't be allowed, only one address after the other")
	case text == "*":
		return errors.New(`expected a host or *.suffix; to allow everything public, use the mode "full"`)
	case strings.Contains(strings.TrimPrefix(text, "*."), "*"):
		return errors.New(`"*" is only understood at the start, as in *.example.com`)
	case text == "":
		return errEntryForm
	}
	return nil
}

// splitEntry separates a port, if there is one, from the host in front of it.
func splitEntry(text string) (host string, port uint16, err error) {
	portText := ""
	switch {
	case strings.HasPrefix(text, "["):
		inner, rest, ok := strings.Cut(text[1:], "]")
		if !ok || (rest != "" && rest[0] != ':') || !strings.Contains(inner, ":") {
			return "", 0, errEntryForm
		}
		if rest == "" {
			return inner, 0, nil
		}
		host, portText = inner, rest[1:]
	case strings.Count(text, ":") != 1: // none, or a bare IPv6 address
		return text, 0, nil
	default:
		host, portText, _ = strings.Cut(text, ":")
	}
	port, err = parsePort(portText)
	return host, port, err
}

// parsePort reads a TCP port, 1 to 65535, in decimal digits alone.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || len(text) > 5 {
		return 0, fmt.Errorf("port %q: expected a number from 1 to 65535", text)
	}
	return uint16(n), nil
}

func checkAddr(spelling string, addr netip.Addr, port uint16) error {
	if plain, err := netip.ParseAddr(spelling); err != nil || plain.Unmap() != addr {
		return fmt.Errorf("expected the usual spelling of an address, %s", addr)
	}
	if addr.Zone() != "" {
		return errors.New("expected an address without a zone")
	}
	switch class := Classify(addr); {
	case class == Loopback:
		return fmt.Errorf("the host's own services are allowed by name, as %s:PORT", HostName)
	case class == Multicast || class == Unspecified:
		return fmt.Errorf("%s is %s: nothing can be connected to there", addr, class)
	case class != Public && port == 0:
		return fmt.Errorf("%s is %s and needs its port: expected %s", addr, class,
			strings.TrimSuffix(netip.AddrPortFrom(addr, 0).String(), "0")+"PORT")
	}
	return nil
}

func (t target) checkName() error {
	switch {
	case t.sub && isReserved(t.name):
		return fmt.Errorf("names below %s can't be allowed; the host is %s:PORT", t.name, HostName)
	case t.sub:
		return nil
	case t.name != HostName && isReserved(t.name):
		return fmt.Errorf("that is the sandbox itself; the host's own services are %s:PORT", HostName)
	case t.port == 0 && (t.name == HostName || isLocal(t.name)):
		return fmt.Errorf("a name of the host or of its own network needs its port: expected %s:PORT", t.name)
	}
	return nil
}

// isLocal says whether a name has no dot, so that what it means depends on
// where it is asked.
func isLocal(name string) bool { return !strings.Contains(name, ".") }

// isReserved says whether a name is never looked up: loopback by definition
// (RFC 6761, 6.3), or ours. HostName is handled before.
func isReserved(name string) bool {
	for _, zone := range [...]string{"localhost", "forage.internal"} {
		if name == zone || strings.HasSuffix(name, "."+zone) {
			return true
		}
	}
	return false
}

// RuleError says what is wrong with a rule, and where in it.
type RuleError struct {
	Path []any // keys (string) and indexes (int), as in the configuration: "git", "push", 0; none is the rule as a whole
	Err  error
}

func (e *RuleError) Error() string {
	if len(e.Path) == 0 {
		return e.Err.Error()
	}
	var at strings.Builder
	for i, step := range e.Path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&at, "[%d]", step)
		case string:
			if i > 0 {
				at.WriteByte('.')
			}
			at.WriteString(step)
		}
	}
	return at.String() + ": " + e.Err.Error()
}

func (e *RuleError) Unwrap() error { return e.Err }

func wrongRule(err error, path ...any) error {
	if err == nil {
		return nil
	}
	return &RuleError{path, err}
}

// CheckRule says what is wrong with a rule, as a *RuleError; nil if it means something.
func CheckRule(r forage.Rule) error {
	_, err := compileRule(r)
	return err
}

// checkShape checks what the parts of a rule mean together.
func checkShape(r forage.Rule) error {
	switch {
	case r.Host == "":
		return wrongRule(errors.New("a rule needs a host"))
	case r.Git == nil:
		return nil
	case r.Deny:
		return wrongRule(errors.New("git allows and can't be denied: expected paths, or a rule without deny"), "git")
	case len(r.Methods) > 0:
		return wrongRule(errors.New("git has methods of its own: expected a rule for each"), "methods")
	case len(r.Paths) > 0:
		return wrongRule(errors.New("git has paths of its own: expected a rule for each"), "paths")
	case len(r.Git.Repos) == 0:
		return wrongRule(errors.New(`expected repos = ["OWNER/NAME"] that may be fetched from`), "git")
	}
	return nil
}

// checkMethod takes a method of HTTP, a token in upper case (RFC 9110, 9.1).
func checkMethod(method string) error {
	if method == "" || len(method) > 32 || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return fmt.Errorf("%.80q: expected a method in upper case, such as GET", method)
	}
	return nil
}
