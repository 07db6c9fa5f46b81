package egress

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/policy"
)

// Refused is a destination that was refused, so that the user can be told how to allow it. All of
// it but the rule and the count was said inside.
type Refused struct {
	Host   string `json:"host"`
	Port   uint16 `json:"port,omitempty"`   // 0: only its name was asked for
	Method string `json:"method,omitempty"` // of HTTP, as is the path; "" is a connection
	Path   string `json:"path,omitempty"`
	Rule   string `json:"rule"`
	Way
	Reason string    `json:"reason"`
	Count  int64     `json:"count"`
	Last   time.Time `json:"last"`
}

// Way is how the user can allow what was refused.
type Way struct {
	Allow string             `json:"allow,omitempty"` // to allow, as it is written; "" where that does not do
	Mode  forage.NetworkMode `json:"mode,omitempty"`  // to set as well; "" is the present one
	// Private is the name whose address is not public, to be named in privateHosts.
	Private string `json:"private,omitempty"`
}

// way finds how the user can allow a request that d refuses.
func (e *Engine) way(r policy.Request, d policy.Decision) Way {
	if d.Rule == policy.RulePrivate && r.Host != "" {
		return Way{Private: r.Host}
	}
	if r.Port == 0 { // a name in the DNS
		r.Port = tlsPort
	}
	for _, change := range policy.Explain(e.present(), e.pins.request(r)).Changes {
		if change.Allow != "" {
			return Way{Allow: change.Allow, Mode: change.Mode}
		}
	}
	return Way{}
}

// wayOut tells the client how the user can allow what was refused, where the user is known to
// have a sandbox.
func (e *Engine) wayOut(way Way) string {
	switch {
	case e.config.WayOut == nil:
	case way.Private != "":
		return fmt.Sprintf("; the user can allow it with privateHosts = [%q] below [network] in the configuration of the host", way.Private)
	case way.Allow != "":
		return "; the user can allow it on the host: " + e.config.WayOut(way)
	}
	return ""
}

// maxRefused bounds the destinations that are told apart: the last ones. Others have their lines
// in the audit log alone.
const maxRefused = 100

type destKey struct {
	host string
	port uint16
}

// refusals are the destinations that were refused since the start. They are guarded by Engine.mu.
type refusals map[destKey]*Refused

func (all refusals) add(event audit.Event, d policy.Decision, way Way, now time.Time) {
	if event.Host == "" || event.Kind == audit.DNS && event.Method != "A" && event.Method != "AAAA" {
		return
	}
	key := destKey{event.Host, event.Port}
	one := all[key]
	if one == nil {
		if len(all) >= maxRefused { // the last one has to be there: it is what the user is asked to allow
			delete(all, all.oldest())
		}
		one = &Refused{Host: event.Host, Port: event.Port}
		all[key] = one
	}
	one.Rule, one.Reason, one.Way, one.Last = d.Rule, d.Reason, way, now
	if event.Kind == audit.HTTP {
		one.Method, one.Path = event.Method, event.Path
	}
	if event.Method != "AAAA" || event.Kind != audit.DNS { // resolvers ask for both
		one.Count++
	}
}

func (all refusals) oldest() (found destKey) {
	for key, one := range all {
		if oldest := all[found]; oldest == nil || one.Last.Before(oldest.Last) {
			found = key
		}
	}
	return found
}

// forget drops what the policy p allows now.
func (all refusals) forget(p policy.Policy, pins pins) {
	maps.DeleteFunc(all, func(_ destKey, one *Refused) bool {
		r := policy.Request{Port: one.Port, Method: one.Method, Path: one.Path}
		r.Host, r.Addr = destination(one.Host)
		d := policy.Decide(p, pins.request(r))
		return d.Verdict == policy.Allow && (d.Named || one.Rule != policy.RulePrivate)
	})
}

// destination reads the host of an event.
func destination(text string) (name string, addr netip.Addr) {
	if addr, ok := policy.ParseAddr(text); ok {
		return "", addr
	}
	return text, netip.Addr{}
}

// Refused are the destinations that were refused since the start and are not allowed now, the
// last one first.
func (e *Engine) Refused() []Refused {
	e.mu.Lock()
	defer e.mu.Unlock()
	connected := make(map[string]bool)
	for key := range e.refused {
		connected[key.host] = connected[key.host] || key.port != 0
	}
	var all []Refused
	for key, one := range e.refused {
		if key.port == 0 && connected[key.host] {
			continue // told with its port
		}
		told := *one
		told.Count = max(told.Count, 1)
		all = append(all, told)
	}
	slices.SortFunc(all, func(a, b Refused) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return all
}
