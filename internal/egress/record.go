package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/meter"
	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// deniedError is a denial that was recorded.
type deniedError struct {
	policy.Decision
	way Way
}

func (d *deniedError) Error() string { return d.Reason }

// isRecorded says whether an error has its line in the audit log already.
func isRecorded(err error) bool {
	var denied *deniedError
	var limit *meter.Limited
	return errors.As(err, &denied) || errors.As(err, &limit)
}

// said is event with a decision that lets something through.
func said(event audit.Event, d policy.Decision) audit.Event {
	event.Verdict, event.Rule = policy.Allow.String(), d.Rule
	if d.Monitored {
		event.Verdict, event.Reason, event.Monitored = policy.Deny.String(), d.Reason, true
	}
	return event
}

// deny records a denial and returns it, or what kept it from being recorded.
func (f *flow) deny(event audit.Event, d policy.Decision) error {
	return f.e.deny(f.ctx, event, d)
}

func (e *Engine) deny(ctx context.Context, event audit.Event, d policy.Decision) error {
	r := policy.Request{Port: event.Port}
	if event.Kind == audit.HTTP {
		r.Method, r.Path = event.Method, event.Path
	}
	r.Host, r.Addr = destination(event.Host)
	way := e.way(r, d)
	event.Reason = d.Reason
	event = e.redacted(event)
	d.Reason = event.Reason
	e.mu.Lock()
	e.total.Denied++
	if event.Kind != audit.DNS && event.Host != "" {
		e.traffic.of(event.Host).Denied++
	}
	e.refused.add(event, d, way, e.config.Now())
	e.mu.Unlock()
	event.Verdict, event.Rule, event.Reason = policy.Deny.String(), d.Rule, d.Reason
	_ = e.denials.Wait(ctx) // what is ending meanwhile is recorded all the same
	if err := e.record(event); err != nil {
		return err
	}
	return &deniedError{d, way}
}

// refuse denies a flow for a reason that is not the policy's, and resets it.
func (e *Engine) refuse(f *flow, event audit.Event, rule, reason string) error {
	err := f.deny(event, policy.Decision{Rule: rule, Reason: reason})
	relay.Reset(f.client)
	return err
}

// record is the one way into the audit log.
func (e *Engine) record(event audit.Event) error {
	event.Sandbox = e.config.Sandbox
	return e.config.Audit.Record(e.redacted(event))
}

// redacted is event without secrets: servers may have said what is in it.
func (e *Engine) redacted(event audit.Event) audit.Event {
	set := e.secrets.Load()
	for _, text := range []*string{&event.Host, &event.Method, &event.Path, &event.Reason, &event.Model} {
		*text = set.Redact(*text)
	}
	return event
}

// closing records how something that was allowed has ended. The decision is
// in the log already, so nothing depends on this line.
func (c *permit) closing(event audit.Event, err error) {
	d := c.now()
	c.release()
	event.Host, event.Port = c.request.Dest(), c.request.Port
	event = said(event, d)
	event.BytesIn, event.BytesOut = c.counts.In.Load(), c.counts.Out.Load()
	event.Millis = c.f.e.config.Now().Sub(c.began).Milliseconds()
	event.Reason = "closed"
	if err != nil {
		event.Reason = "failed: " + err.Error()
	}
	_ = c.f.e.record(event)
}

// denyRequest records that something allowed is refused after all.
func (f *flow) denyRequest(r policy.Request, rule, reason string) error {
	return f.deny(audit.Event{Kind: audit.Connect, Host: r.Dest(), Port: r.Port}, policy.Decision{Rule: rule, Reason: reason})
}

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
