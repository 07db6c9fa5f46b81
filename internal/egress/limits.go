package egress

import (
	"context"
	"errors"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/meter"
	"forage/internal/policy"
)

// Bytes that are moved are told to the account now and then, where they are bounded: a
// connection is not slowed down by counting, and may move what it can within that
// time. While nothing is moved they are looked at less often.
const (
	countOften  = 250 * time.Millisecond
	countSeldom = 4 * time.Second
)

// open takes a flow's place in the account, or notes what that has against it.
func (f *flow) open() {
	f.over = func() {}
	over, err := f.e.config.Account.Open()
	if err != nil {
		f.limit = err
	} else {
		f.over = over
	}
	f.e.startCounting()
}

// admit counts something that a flow is about to do. An error is a *meter.Limited.
func (f *flow) admit(host string) error {
	if f.limit != nil {
		return f.limit
	}
	return f.e.config.Account.Admit(host)
}

// limited records that a bound is reached. It returns what to tell about it: the
// *meter.Limited, or what kept it from being recorded.
func (f *flow) limited(event audit.Event, r policy.Request, err error) error {
	var limit *meter.Limited
	if !errors.As(err, &limit) {
		return err
	}
	event.Host, event.Port = r.Dest(), r.Port
	denied := f.deny(event, policy.Decision{Rule: limit.Rule, Reason: limit.Reason})
	var recorded *deniedError
	if !errors.As(denied, &recorded) {
		return denied
	}
	return limit
}

// startCounting makes countBytes run while there are flows, and bytes are bounded.
func (e *Engine) startCounting() {
	if e.config.Account.Bounds().BytesMax <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counting || e.closed {
		return
	}
	e.counting = true
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		wait := countOften
		for more, moved := e.countBytes(); more && pause(e.ctx, wait); more, moved = e.countBytes() {
			if wait = min(2*wait, countSeldom); moved {
				wait = countOften
			}
		}
	}()
}

// countBytes tells the account what the flows have moved; when that is too
// much, they are reset. more says that there are flows, moved that they have moved something.
func (e *Engine) countBytes() (more, moved bool) {
	e.mu.Lock()
	var spent []*flow
	for f := range e.flows {
		before := f.counted
		if !e.countLocked(f) {
			spent = append(spent, f)
		}
		moved = moved || f.counted != before
	}
	more = len(e.flows) > 0 && e.config.Account.Bounds().BytesMax > 0
	e.counting = more
	e.mu.Unlock()
	for _, f := range spent {
		f.kill()
		event := audit.Event{Kind: audit.Connect}
		if r, d := f.own.now(); d.Verdict == policy.Allow {
			event.Host, event.Port = r.Dest(), r.Port
		}
		f.deny(event, policy.Decision{Rule: "bytes-max", Reason: "the sandbox has moved as many bytes as it may"}) // it is over, recorded or not
	}
	return more, moved
}

// startCounts makes a flow count from here on: what was said about a tunnel is not of it.
func (f *flow) startCounts() {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	f.e.countLocked(f)
	f.counts.In.Store(0)
	f.counts.Out.Store(0)
	f.counted = 0
}

// countLocked tells the account what a flow has moved since the last time;
// false says that there may be no more.
func (e *Engine) countLocked(f *flow) bool {
	moved := f.counts.In.Load() + f.counts.Out.Load()
	n := moved - f.counted
	f.counted = moved
	return n <= 0 || e.config.Account.Bytes(n)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
