package egress

import (
	"errors"

	"forage/internal/audit"
	"forage/internal/egress/meter"
	"forage/internal/policy"
)

// open takes a flow's place in the account, or notes what that has against it.
func (f *flow) open() {
	f.over = func() {}
	f.late.Store(f.Left() == 0)
	over, err := f.e.config.Account.Open()
	if err != nil {
		f.limit = err
	} else {
		f.over = over
	}
}

// admit counts something that a flow is about to do. An error is a *meter.Limited.
func (f *flow) admit(host string) error {
	if f.limit != nil {
		return f.limit
	}
	err := f.e.config.Account.Admit(host)
	if err == nil {
		f.late.Store(false)
	}
	return err
}

// limited records that a bound is reached. It returns what to tell about it: the
// *meter.Limited, or what kept it from being recorded.
func (f *flow) limited(event audit.Event, err error) error {
	var limit *meter.Limited
	if !errors.As(err, &limit) {
		return err
	}
	denied := f.deny(event, policy.Decision{Rule: limit.Rule, Reason: limit.Reason})
	var recorded *deniedError
	if !errors.As(denied, &recorded) {
		return denied
	}
	return limit
}

var errSpent = errors.New("the sandbox has moved as many bytes as it may")

// Spend counts bytes that the flow has moved, as relay.Bound.
func (f *flow) Spend(n int64) error {
	if f.e.config.Account.Bytes(n) || f.late.Load() {
		return nil
	}
	f.spent.Store(true)
	return errSpent
}

// Left is how many bytes the sandbox may still move.
func (f *flow) Left() int64 { return f.e.config.Account.BytesLeft() }

// denySpent records that a flow was ended because of the bound on bytes.
func (f *flow) denySpent() {
	event := audit.Event{Kind: audit.Connect}
	if f.own.now().Verdict == policy.Allow {
		event = f.own.event
	}
	f.deny(event, policy.Decision{Rule: "bytes-max", Reason: errSpent.Error()}) // it is over, recorded or not
}
