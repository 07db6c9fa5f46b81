package egress

import (
	"cmp"
	"slices"
	"strings"
	"time"
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

type hostCounts struct{ HostTraffic }

// traffic counts by host. It is guarded by Engine.mu.
type traffic struct {
	byHost map[string]*hostCounts
	other  hostCounts
}

// of is the counts of a host. When there are too many hosts, one that was only ever denied
// makes room: names that something inside makes up are not to hide those that it reaches.
func (t *traffic) of(host string) *hostCounts {
	if found, ok := t.byHost[host]; ok {
		return found
	}
	if len(t.byHost) >= maxHosts && !t.makeRoom() {
		return &t.other
	}
	made := &hostCounts{HostTraffic{Host: host}}
	t.byHost[host] = made
	return made
}

func (t *traffic) makeRoom() bool {
	for host, counts := range t.byHost {
		if counts.Requests == 0 {
			t.other.Denied += counts.Denied
			delete(t.byHost, host)
			return true
		}
	}
	return false
}

// Traffic is what each host was asked and gave so far, what is under way
// included, the one that was used last first.
func (e *Engine) Traffic() []HostTraffic {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := make(map[*hostCounts]HostTraffic, len(e.traffic.byHost)+1)
	for _, counts := range e.traffic.byHost {
		now[counts] = counts.HostTraffic
	}
	if other := &e.traffic.other; other.Requests+other.Denied > 0 {
		now[other] = other.HostTraffic
	}
	for c := range e.permits {
		if c.host == nil {
			continue
		}
		counts := now[c.host]
		counts.Open++
		counts.BytesIn += c.counts.In.Load()
		counts.BytesOut += c.counts.Out.Load()
		now[c.host] = counts
	}
	all := make([]HostTraffic, 0, len(now))
	for _, counts := range now {
		if counts.Host == "" {
			counts.Host = OtherHosts
		}
		all = append(all, counts)
	}
	slices.SortFunc(all, func(a, b HostTraffic) int {
		return cmp.Or(b.LastUse.Compare(a.LastUse), strings.Compare(a.Host, b.Host))
	})
	return all
}
