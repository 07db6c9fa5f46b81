package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

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
	event.Verdict, event.Rule, event.Reason = policy.Deny.String(), d.Rule, d.Reason
	event = e.redacted(event)
	d.Reason = event.Reason
	e.tally.Deny(event, way)
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
	set := e.rules.Load().secrets
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

// way finds how the user can allow a request that d refuses.
func (e *Engine) way(r policy.Request, d policy.Decision) Way {
	if d.Rule == policy.RulePrivate && r.Host != "" {
		return Way{Private: r.Host}
	}
	if r.Port == 0 { // a name in the DNS
		r.Port = tlsPort
	}
	for _, change := range policy.Explain(e.rules.Load().policy, e.router.Complete(r)).Changes {
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

// destination reads the host of an event.
func destination(text string) (name string, addr netip.Addr) {
	if addr, ok := policy.ParseAddr(text); ok {
		return "", addr
	}
	return text, netip.Addr{}
}
