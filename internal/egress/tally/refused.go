package tally

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/audit"
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

// maxRefused bounds the destinations that are told apart: the last ones. Others have their lines
// in the audit log alone.
const maxRefused = 100

type destination struct {
	host string
	port uint16
}

// Deny counts a denial. Questions for a name count by their addresses alone; event has the reason
// and the rule.
func (t *Tally) Deny(event audit.Event, way Way) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.denied++
	isName := event.Kind == audit.DNS
	if event.Host == "" || isName && event.Method != "A" && event.Method != "AAAA" {
		return
	}
	if !isName {
		t.hostLocked(event.Host).Denied++
	}
	key := destination{event.Host, event.Port}
	one := t.refused[key]
	if one == nil {
		if len(t.refused) >= maxRefused { // the last one has to be there: it is what the user is asked to allow
			oldest := slices.MinFunc(slices.Collect(maps.Values(t.refused)), func(a, b *Refused) int { return a.Last.Compare(b.Last) })
			delete(t.refused, destination{oldest.Host, oldest.Port})
		}
		one = &Refused{Host: event.Host, Port: event.Port}
		t.refused[key] = one
	}
	one.Rule, one.Reason, one.Way, one.Last = event.Rule, event.Reason, way, t.now()
	if event.Kind == audit.HTTP {
		one.Method, one.Path = event.Method, event.Path
	}
	if !isName || event.Method != "AAAA" { // resolvers ask for both
		one.Count++
	}
}

// Forget drops the destinations that are allowed now.
func (t *Tally) Forget(allowed func(Refused) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.refused, func(_ destination, one *Refused) bool { return allowed(*one) })
}

// Refused are the destinations that were refused since the start and are not allowed now, the
// last one first.
func (t *Tally) Refused() []Refused {
	t.mu.Lock()
	defer t.mu.Unlock()
	connected := make(map[string]bool)
	for key := range t.refused {
		connected[key.host] = connected[key.host] || key.port != 0
	}
	var all []Refused
	for key, one := range t.refused {
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
