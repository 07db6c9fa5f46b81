// Package recommend turns a recording, which is an audit log, into the smallest
// allowlist that would have allowed it. It reads events and writes rules; whether
// what was recorded should be allowed is for a person to say.
package recommend

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"forage"
	"forage/internal/audit"
	"forage/internal/policy"
)

// Bounds of what is told apart for one host and port; beyond them a rule says less.
const (
	maxRequests = 5000 // that are looked at
	maxPaths    = 100  // of the rules that are made of them
)

// Recommendation is a policy that allows what was recorded.
type Recommendation struct {
	Allow []string      `json:"allowedHosts"`
	Rules []forage.Rule `json:"rules"`
	// LookedUp are names that were asked for in the DNS alone, and need no rule.
	LookedUp []string `json:"lookedUp"`
	// Pushed are the repositories that were pushed to, as HOST/REPO. No rule allows that: which
	// branches may be pushed is not in a recording.
	Pushed []string `json:"pushed"`
	// Wide are the hosts with requests that rules could not tell apart; they are allowed as a
	// whole.
	Wide []string `json:"wide"`
	// Events is how many were looked at, and Requests how many of them were let through.
	Events   int `json:"events"`
	Requests int `json:"requests"`
}

// From makes a recommendation of events: those that were allowed, and those that monitor mode let
// through. The error is that of reading them.
func From(events iter.Seq2[audit.Event, error]) (Recommendation, error) {
	r := recording{places: map[place]*requests{}, looked: map[string]bool{}}
	for e, err := range events {
		if err != nil {
			return Recommendation{}, err
		}
		r.add(e)
	}
	return r.recommendation(), nil
}

// place is where a connection led.
type place struct {
	host string
	port uint16
}

// requests are those that were seen at a place.
type requests struct {
	seen  map[request]bool
	many  bool // more than are looked at
	named bool // the rule that allowed it names its port, and so may mean a private address
}

// request is an HTTP request, as far as rules tell them apart.
type request struct{ method, path string }

type recording struct {
	places map[place]*requests
	looked map[string]bool
	events int
	let    int
}

func (r *recording) add(e audit.Event) {
	r.events++
	if e.Host == "" || e.Verdict != policy.Allow.String() && !e.Monitored {
		return
	}
	switch e.Kind {
	case audit.DNS:
		r.looked[e.Host] = true
		return
	case audit.Connect, audit.HTTP:
	default:
		return
	}
	if e.Port == 0 {
		return
	}
	r.let++
	at := place{e.Host, e.Port}
	found := r.places[at]
	if found == nil {
		found = &requests{seen: map[request]bool{}}
		r.places[at] = found
	}
	found.named = found.named || !e.Monitored && strings.HasPrefix(e.Rule+" ", entry(at, true)+" ")
	if e.Kind == audit.HTTP && e.Method != "" && e.Method != "CONNECT" {
		if len(found.seen) >= maxRequests {
			found.many = true
			return
		}
		found.seen[request{e.Method, e.Path}] = true
	}
}

// recommendation makes rules of what was seen.
func (r *recording) recommendation() Recommendation {
	s := Recommendation{Allow: []string{}, Rules: []forage.Rule{}, LookedUp: []string{}, Pushed: []string{}, Wide: []string{}, Events: r.events, Requests: r.let}
	reached := map[string]bool{}
	for host, ports := range r.hosts() {
		reached[host] = true
		s.addHost(r, host, ports)
	}
	for host := range r.looked {
		if !reached[host] {
			s.LookedUp = append(s.LookedUp, host)
		}
	}
	for _, list := range []*[]string{&s.Allow, &s.LookedUp, &s.Pushed, &s.Wide} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(s.Rules, compareRules)
	return s
}

// hosts are the ports that were reached, by host.
func (r *recording) hosts() map[string][]uint16 {
	hosts := map[string][]uint16{}
	for at := range r.places {
		hosts[at.host] = append(hosts[at.host], at.port)
	}
	for _, ports := range hosts {
		slices.Sort(ports)
	}
	return hosts
}

// addHost adds what allows what was seen of one host.
func (s *Recommendation) addHost(r *recording, host string, ports []uint16) {
	all := &requests{seen: map[request]bool{}}
	together := true // one entry, or one set of rules, for all the ports
	for _, port := range ports {
		one := r.places[place{host, port}]
		together = together && !one.named && (port == 80 || port == 443) &&
			(len(one.seen) > 0) == (len(r.places[place{host, ports[0]}].seen) > 0)
		all.many = all.many || one.many
		for seen := range one.seen {
			all.seen[seen] = true
		}
	}
	if together && usable(entry(place{host, 0}, false)) {
		s.addPlace(place{host, ports[0]}, entry(place{host, 0}, false), all)
		return
	}
	for _, port := range ports {
		at := place{host, port}
		if text := entry(at, true); usable(text) {
			s.addPlace(at, text, r.places[at])
		}
	}
}

// entry is how a place is written in an allow list.
func entry(at place, withPort bool) string {
	addr, isAddr := policy.ParseAddr(at.host)
	request := policy.Request{Host: at.host, Port: at.port}
	if isAddr {
		request = policy.Request{Addr: addr, Port: at.port}
	}
	if !withPort {
		if isAddr {
			return "" // an address is always allowed with its port
		}
		return at.host
	}
	return request.Authority()
}

// usable says whether text can be an entry of an allow list.
func usable(text string) bool {
	_, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Allow: []string{text}})
	return err == nil
}

// addPlace adds what allows the requests that were seen at a place, which is
// written as text.
func (s *Recommendation) addPlace(at place, text string, seen *requests) {
	git, others := splitGit(seen.seen)
	for repo := range git.pushed {
		s.Pushed = append(s.Pushed, at.host+"/"+repo)
	}
	var rules []forage.Rule
	if len(git.repos) > 0 {
		rules = append(rules, forage.Rule{Host: text, Git: &forage.GitRule{Repos: sorted(git.repos)}})
	}
	if !seen.many {
		rules = append(rules, rulesFor(text, others)...)
	}
	switch {
	case len(seen.seen) == 0:
		s.Allow = append(s.Allow, text)
	case seen.many || !allowsAll(rules, at, seen.seen):
		s.Wide = append(s.Wide, text)
		s.Allow = append(s.Allow, text)
	default:
		s.Rules = append(s.Rules, rules...)
	}
}

// allowsAll says whether rules allow all that was seen, but pushes.
func allowsAll(rules []forage.Rule, at place, seen map[request]bool) bool {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Rules: rules})
	if err != nil {
		return false
	}
	for r := range seen {
		if _, service, ok := gitRequest(r); ok && service == gitPush {
			continue
		}
		if policy.Decide(p, r.at(at)).Verdict != policy.Allow {
			return false
		}
	}
	return true
}

// at is the request to a place, for a decision. What git asks with is not recorded.
func (r request) at(at place) policy.Request {
	path := r.path
	if wasCut(path) {
		path = strings.TrimSuffix(path, "...")
		if i := strings.LastIndexByte(path, '%'); i >= max(0, len(path)-2) { // half an escape
			path = path[:i]
		}
	}
	request := policy.Request{Host: at.host, Port: at.port, Method: r.method, Path: path, Pinned: true}
	if addr, ok := policy.ParseAddr(at.host); ok {
		request.Host, request.Addr = "", addr
	}
	if _, service, ok := gitRequest(r); ok && service == gitRefs {
		request.Query = "service=" + gitFetch
	}
	return request
}

func compareRules(a, b forage.Rule) int {
	git := func(r forage.Rule) int { // before the others
		if r.Git != nil {
			return 0
		}
		return 1
	}
	return cmp.Or(strings.Compare(a.Host, b.Host), git(a)-git(b), slices.Compare(a.Paths, b.Paths))
}

func sorted(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for text := range set {
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}
