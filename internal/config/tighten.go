package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/policy"
)

// Tighten is the template with what the project takes away. A project that
// asks for more than the template allows is ErrDenied, with the file and line.
func Tighten(template forage.Template, project Project) (forage.Template, error) {
	t := template
	if project.network != nil {
		if width(*project.network) > width(t.Network.Mode) {
			return t, project.denied("network", "network = %q is more than the template %s allows (%s)", *project.network, t.Name, cmp.Or(t.Network.Mode, forage.NetworkNone))
		}
		t.Network.Mode = *project.network
	}
	if project.allow != nil {
		if err := project.narrow(template.Network, t.Name); err != nil {
			return t, err
		}
		if host, rule, ok := exposes(template.Network, project.allow); ok {
			return t, project.denied("allowedHosts", "allowedHosts: without %s the rule for %s in the template %s would allow what is denied now", host, rule, t.Name)
		}
		t.Network.Allow = slices.Clone(project.allow)
		if t.Network.Mode == forage.NetworkFull {
			t.Network.Mode = forage.NetworkRestricted
		}
	}
	t.Network.Rules = slices.Concat(t.Network.Rules, project.rules)
	t.ReadOnlyWorkspace = t.ReadOnlyWorkspace || project.readOnly
	t.EphemeralHome = t.EphemeralHome || project.noHome
	t.Unprotected = t.Unprotected && !project.protect
	err := project.lower(&t)
	return t, err
}

func (p Project) denied(path, format string, args ...any) error {
	at := p.said.place(path)
	err := forage.Errorf(forage.ErrDenied, "%s:%d: "+format, append([]any{at.file.path, at.line()}, args...)...)
	return forage.WithHint(err, "a project's file can only tighten; what it needs has to be in your own configuration")
}

// narrow checks that each host of the project's is one that the template's
// network allows, to the same extent. One that would go before a rule of the
// template's, by being more special than the rule, is none.
func (p Project) narrow(network forage.Network, template string) error {
	for i, text := range p.allow {
		if !covers(network, text) {
			return p.denied(item("allowedHosts", i), "allowedHosts: %s is not among the hosts that the template %s allows", text, template)
		}
		if rule, ok := undermines(network, text); ok {
			return p.denied(item("allowedHosts", i), "allowedHosts: %s would go before the rule for %s in the template %s", text, rule, template)
		}
	}
	return nil
}

// lower takes over the bounds of the project's that are lower than the
// template's; a higher one is an error.
func (p Project) lower(t *forage.Template) error {
	limits, traffic := bounds{p, t.Name, "resourceLimits"}, bounds{p, t.Name, "traffic"}
	return cmp.Or(
		lowerTo(limits, "tasksMax", p.limits.TasksMax, &t.Limits.TasksMax),
		lowerTo(limits, "memoryMax", p.limits.MemoryMax, &t.Limits.MemoryMax),
		lowerTo(limits, "cpuQuota", p.limits.CPUQuota, &t.Limits.CPUQuota),
		lowerTo(limits, "diskMax", p.limits.DiskMax, &t.Limits.DiskMax),
		lowerTo(limits, "wallClock", p.limits.WallClock, &t.Limits.WallClock),
		lowerTo(traffic, "requestsPerMinute", p.traffic.RequestsPerMinute, &t.Traffic.RequestsPerMinute),
		lowerTo(traffic, "bytesMax", p.traffic.BytesMax, &t.Traffic.BytesMax),
		lowerTo(traffic, "connectionsMax", p.traffic.ConnectionsMax, &t.Traffic.ConnectionsMax),
		lowerTo(traffic, "maxTokens", p.traffic.MaxTokens, &t.Traffic.MaxTokens),
		lowerTo(traffic, "maxCost", p.traffic.MaxCost, &t.Traffic.MaxCost))
}

// bounds is one of the project's tables of bounds.
type bounds struct {
	project  Project
	template string
	table    string
}

// lowerTo takes over one bound, if the project has it.
func lowerTo[N ~int64 | ~float64](b bounds, key string, from N, to *N) error {
	if from == 0 {
		return nil
	}
	if *to != 0 && from > *to {
		return b.project.denied(b.table+"."+key, "%s.%s is more than the template %s allows", b.table, key, b.template)
	}
	*to = from
	return nil
}

// undermines says whether an entry of an allow list, which is not one of
// network's, would be asked before a rule of network's for some of the same
// hosts, and is then the rule's host.
func undermines(network forage.Network, text string) (string, bool) {
	asked, ok := parseEntry(text)
	if !ok {
		return "", false
	}
	for _, allowed := range network.Allow {
		if have, ok := parseEntry(allowed); ok && have == asked {
			return "", false
		}
	}
	for _, rule := range network.Rules {
		have, ok := parseEntry(rule.Host)
		if policy.IsSet(rule.Host) { // which hosts it has is not known yet
			return rule.Host, true
		}
		if ok && have != asked && have.meets(asked) {
			return rule.Host, true
		}
	}
	return "", false
}

// exposes finds an allowed host with a port that is not kept, and a rule for some requests to that
// host at any port. At that port the host decides alone, as the more special one, and a rule that
// denies wins over it. Without it the rule decides, which may be more special than the one that
// denies.
func exposes(network forage.Network, kept []string) (host, rule string, ok bool) {
	for _, text := range network.Allow {
		gone, known := parseEntry(text)
		if slices.Contains(kept, text) || known && gone.port == 0 {
			continue
		}
		denied := func(r forage.Rule) bool {
			have, ok := parseEntry(r.Host)
			return r.Deny && (!ok || !known || have.meets(gone))
		}
		if !slices.ContainsFunc(network.Rules, denied) {
			continue
		}
		for _, r := range network.Rules {
			have, ok := parseEntry(r.Host)
			same := !ok || !known || have.port == 0 && have.host == gone.host && have.below == gone.below // sets: not known yet
			if same && !r.Deny && len(r.Methods)+len(r.Paths) > 0 || same && r.Git != nil {
				return text, r.Host, true
			}
		}
	}
	return "", "", false
}

// covers says whether everything that the entry text would allow, in a
// restricted network, is allowed by network already. An entry that names one
// host with its port also lets private addresses through (see package policy): it is covered
// only by the same entry.
func covers(network forage.Network, text string) bool {
	if network.Mode != forage.NetworkFull && network.Mode != forage.NetworkRestricted {
		return false
	}
	if policy.IsSet(text) {
		return slices.Contains(network.Allow, text)
	}
	asked, ok := parseEntry(text)
	if !ok {
		return false
	}
	for _, allowed := range network.Allow {
		if have, ok := parseEntry(allowed); ok && have.covers(asked) {
			return true
		}
	}
	return network.Mode == forage.NetworkFull && !asked.named() && asked.host != policy.HostName
}

// entry is one entry of an allow list, taken apart.
type entry struct {
	host  string // canonical name, or address
	port  uint16 // 0: any
	below bool   // *.host
	addr  bool   // host is a literal address
}

// named says whether an entry allows one destination by name and port, which
// lets private addresses through.
func (e entry) named() bool { return !e.below && e.port != 0 }

func (e entry) covers(o entry) bool {
	switch {
	case e == o:
		return true
	case o.named() || e.addr != o.addr, e.port != 0 && e.port != o.port:
		return false
	case e.below:
		return strings.HasSuffix(o.host, "."+e.host) || (o.below && o.host == e.host)
	}
	return !o.below && e.host == o.host
}

// meets says whether there are destinations that both entries are about.
func (e entry) meets(o entry) bool {
	if e.addr != o.addr || e.port != 0 && o.port != 0 && e.port != o.port {
		return false
	}
	return e.host == o.host && e.below == o.below ||
		e.below && strings.HasSuffix(o.host, "."+e.host) || o.below && strings.HasSuffix(e.host, "."+o.host)
}

// parseEntry takes apart an entry that policy.Compile has accepted.
func parseEntry(text string) (entry, bool) {
	var e entry
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.Count(text, ":") == 1 || strings.Contains(text, "]:")) {
		port, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil {
			return entry{}, false
		}
		host, e.port = text[:i], uint16(port)
	}
	host, e.below = strings.CutPrefix(host, "*.")
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, ok := policy.ParseAddr(host); ok {
		e.host, e.addr = addr.String(), true
		return e, !e.below
	}
	name, err := policy.Canonical(host)
	e.host = name
	return e, err == nil
}
