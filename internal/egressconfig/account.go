package egressconfig

import (
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/meter"
)

// ledgerInterval is how often what was used is written down.
const ledgerInterval = 5 * time.Second

// OpenAccount goes on counting where the file at path left off, and keeps what is used there until
// the Ledger is closed. What keeps it from being written goes to fail.
func OpenAccount(bounds forage.Traffic, path string, fail func(error)) (*meter.Account, *meter.Ledger, error) {
	before, err := meter.ReadTotals(path)
	if err != nil {
		return nil, nil, err
	}
	account := meter.NewAccount(bounds, before, time.Now)
	return account, meter.Keep(account, path, ledgerInterval, fail), nil
}

// SourceFailed is the event for a secret that can't be read. The client is not told why.
func SourceFailed(secret string, err error) audit.Event {
	return audit.Event{Kind: audit.Secret, Verdict: "deny", Secret: secret, Rule: "source", Reason: err.Error()}
}
