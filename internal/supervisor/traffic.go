package supervisor

import (
	"context"
	"errors"

	"forage"
	"forage/internal/egress"
	"forage/internal/egress/meter"
)

// Traffic is what a sandbox asks of the network.
type Traffic struct {
	Totals      meter.Totals   `json:"totals"` // over all its starts
	Bounds      forage.Traffic `json:"bounds"`
	Connections int64          `json:"connections"` // now
	// Hosts are those that were asked for since its start, the one that was used last first.
	Hosts []egress.HostTraffic `json:"hosts"`
}

// Traffic asks what the sandbox asks of the network.
func (c Client) Traffic(ctx context.Context) (Traffic, error) {
	response, err := c.call(ctx, Request{Op: OpTraffic})
	if err == nil && response.Traffic == nil {
		err = errors.New("asking the supervisor: its version counts no traffic; start the sandbox again")
	}
	if err != nil {
		return Traffic{}, err
	}
	return *response.Traffic, nil
}

// TrafficBefore is the Traffic of a sandbox that doesn't run, from where its use is kept.
func TrafficBefore(usagePath string, bounds forage.Traffic) (Traffic, error) {
	totals, err := meter.ReadTotals(usagePath)
	return Traffic{Totals: totals, Bounds: bounds, Hosts: []egress.HostTraffic{}}, err
}
