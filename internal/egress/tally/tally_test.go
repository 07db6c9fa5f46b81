package tally

import (
	"fmt"
	"testing"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/relay"
)

// Names that something inside makes up hide no host that it reaches, and take no more room.
func TestHostsAreBounded(t *testing.T) {
	all := New(time.Now)
	all.Begin("used.example", &relay.Counts{}).End()
	for i := range 3 * maxHosts {
		all.Deny(audit.Event{Kind: audit.Connect, Host: fmt.Sprintf("%d.example", i), Port: 443}, Way{})
	}
	if used := all.hosts["used.example"]; used == nil || used.Requests != 1 || len(all.hosts) != maxHosts || all.other.Denied != 2*maxHosts+1 {
		t.Errorf("%d hosts, %+v", len(all.hosts), all.other)
	}
	if len(all.Refused()) != maxRefused || all.Refused()[0].Host != fmt.Sprintf("%d.example", 3*maxHosts-1) {
		t.Errorf("%d refused, %+v last", len(all.Refused()), all.Refused()[0])
	}
	for i := range 3 * maxHosts {
		all.Begin(fmt.Sprintf("%d.used", i), &relay.Counts{}).End()
	}
	if all.hosts["used.example"].Requests != 1 || len(all.hosts) != maxHosts || all.other.Requests == 0 {
		t.Errorf("%d hosts, %+v", len(all.hosts), all.other)
	}
}

// What is under way counts, once; what is taken back does not.
func TestUse(t *testing.T) {
	all := New(time.Now)
	counts := &relay.Counts{}
	use := all.Begin("a.example", counts)
	counts.In.Add(3)
	if got := all.Traffic()[0]; got.Open != 1 || got.BytesIn != 3 || got.Requests != 1 {
		t.Errorf("%+v", got)
	}
	use.End()
	use.End()
	all.Begin("a.example", counts).Cancel()
	if got := all.Traffic()[0]; got.Open != 0 || got.BytesIn != 3 || got.Requests != 1 {
		t.Errorf("%+v", got)
	}
	var none *Use
	none.End()
}
