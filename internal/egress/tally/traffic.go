// Package tally keeps, in memory, what each host was asked and gave, and which destinations were
// refused. It decides nothing; the audit log has all of it, line by line.
package tally

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"forage/internal/egress/relay"
)

// HostTraffic is what one host was asked, and gave, so far.
type HostTraffic struct {
	Host     string    `json:"host"`     // its name or address; OtherHosts for all that are not told apart
	Requests int64     `json:"requests"` // that were allowed; a connection that is not looked into is one
	Denied   int64     `json:"denied"`
	Open     int       `json:"open"` // connections and requests now
	BytesIn  int64     `json:"bytesIn"`
	BytesOut int64     `json:"bytesOut"`
	Tokens   int64     `json:"tokens,omitempty"` // of language models
	Cost     float64   `json:"cost,omitempty"`   // of those, in US dollars
	LastUse  time.Time `json:"lastUse,omitzero"`
}

// OtherHosts is the name under which hosts are counted together when there are too many.
const OtherHosts = "other"

// maxHosts bounds the hosts that are told apart.
const maxHosts = 1000

// Tally counts for one sandbox.
type Tally struct {
	now func() time.Time

	mu      sync.Mutex
	hosts   map[string]*HostTraffic
	other   HostTraffic
	open    map[*Use]struct{}
	denied  int64
	refused map[destination]*Refused
}

// New makes a tally that has counted nothing.
func New(now func() time.Time) *Tally {
	return &Tally{
		now: now, other: HostTraffic{Host: OtherHosts},
		hosts: make(map[string]*HostTraffic), open: make(map[*Use]struct{}), refused: make(map[destination]*Refused),
	}
}

// Use is a connection or request under way.
type Use struct {
	tally  *Tally
	host   *HostTraffic
	counts *relay.Counts
}

// Begin counts a connection or request to a host that is allowed. Its bytes are read from counts
// until End.
func (t *Tally) Begin(host string, counts *relay.Counts) *Use {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := &Use{tally: t, host: t.hostLocked(host), counts: counts}
	u.host.Requests++
	u.host.LastUse = t.now()
	t.open[u] = struct{}{}
	return u
}

// End counts what has moved. It may be called again, and of nil: nothing has begun.
func (u *Use) End() { u.end(func() { u.addTo(u.host) }) }

// Cancel takes Begin back.
func (u *Use) Cancel() { u.end(func() { u.host.Requests-- }) }

func (u *Use) end(count func()) {
	if u == nil {
		return
	}
	u.tally.mu.Lock()
	defer u.tally.mu.Unlock()
	if _, open := u.tally.open[u]; open {
		delete(u.tally.open, u)
		u.host.LastUse = u.tally.now()
		count()
	}
}

func (u *Use) addTo(host *HostTraffic) {
	host.BytesIn += u.counts.In.Load()
	host.BytesOut += u.counts.Out.Load()
}

// Spent counts what a language model took.
func (u *Use) Spent(tokens int64, cost float64) {
	u.tally.mu.Lock()
	defer u.tally.mu.Unlock()
	u.host.Tokens += tokens
	u.host.Cost += cost
}

// hostLocked is the counts of a host. When there are too many hosts, one that was only ever denied
// makes room: names that something inside makes up are not to hide those that it reaches.
func (t *Tally) hostLocked(host string) *HostTraffic {
	if found, ok := t.hosts[host]; ok {
		return found
	}
	if len(t.hosts) >= maxHosts && !t.makeRoomLocked() {
		return &t.other
	}
	made := &HostTraffic{Host: host}
	t.hosts[host] = made
	return made
}

func (t *Tally) makeRoomLocked() bool {
	for host, counts := range t.hosts {
		if counts.Requests == 0 {
			t.other.Denied += counts.Denied
			delete(t.hosts, host)
			return true
		}
	}
	return false
}

// Denied is how many denials there were, of connections, requests and names.
func (t *Tally) Denied() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denied
}

// Traffic is what each host was asked and gave so far, what is under way included, the one that
// was used last first.
func (t *Tally) Traffic() []HostTraffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := make(map[*HostTraffic]*HostTraffic, len(t.hosts)+1)
	for _, host := range t.hosts {
		now[host] = new(*host)
	}
	if t.other.Requests+t.other.Denied > 0 {
		now[&t.other] = new(t.other)
	}
	for u := range t.open {
		host := now[u.host]
		host.Open++
		u.addTo(host)
	}
	all := make([]HostTraffic, 0, len(now))
	for _, host := range now {
		all = append(all, *host)
	}
	slices.SortFunc(all, func(a, b HostTraffic) int {
		return cmp.Or(b.LastUse.Compare(a.LastUse), strings.Compare(a.Host, b.Host))
	})
	return all
}
