package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"forage"
)

// grade is how special what a rule says of requests is, the host left aside.
type grade struct {
	path  globRank // noPath where it says nothing of paths
	named bool     // it names methods
}

// noPath is the rank of a rule for any path: below every glob.
var noPath = globRank{whole: -1}

func (g grade) compare(o grade) int {
	return cmp.Or(g.path.compare(o.path), cmp.Compare(btoi(g.named), btoi(o.named)))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// most is the greatest grade that a rule can have for any request.
func (r *rule) most() grade {
	g := grade{path: noPath, named: len(r.methods)+len(r.git) > 0}
	for _, path := range r.paths {
		if path.rank.compare(g.path) > 0 {
			g.path = path.rank
		}
	}
	for _, repo := range r.git {
		if rank := repo.rank(gitRefs); rank.compare(g.path) > 0 {
			g.path = rank
		}
	}
	return g
}

// judgeRequest judges a request by every way to read its path: each has to be allowed.
func judgeRequest(r Request, allows, denies []candidate) (d Decision) {
	ways := [][]string{nil}
	ruled := slices.ContainsFunc(denies, candidate.asksPath)
	if ruled || slices.ContainsFunc(allows, candidate.asksPath) {
		if read, ok := readings(r.Path, ruled); ok {
			ways = read
		} else if !wholly(allows, denies) {
			return denied(RulePath, fmt.Sprintf("servers may read the path %.200q in more than one way, and a rule names paths", r.Path))
		}
	}
	var unallowed *Decision
	for i, way := range ways {
		found, named := judgeReading(r, way, allows, denies)
		if i > 0 && found.Verdict != Allow {
			found.Reason = fmt.Sprintf("servers may read the path as %.200q: %s", "/"+strings.Join(way, "/"), found.Reason)
		}
		switch {
		case named:
			return found
		case unallowed != nil:
		case found.Verdict != Allow:
			unallowed = &found
		case i == 0:
			d = found
		case !SamePush(d.Push, found.Push):
			other := denied(RuleDefaultDeny, fmt.Sprintf("servers may read the path %.200q as different repositories", r.Path))
			unallowed = &other
		}
	}
	if unallowed != nil {
		return *unallowed
	}
	return d
}

func (c candidate) asksPath() bool { return len(c.paths)+len(c.git) > 0 }

// wholly says whether every request is allowed, whatever its path and method.
func wholly(allows, denies []candidate) bool {
	whole := func(c candidate) bool { return c.whole() }
	git := func(c candidate) bool { return len(c.git) > 0 }
	return len(denies) == 0 && slices.ContainsFunc(allows, whole) && !slices.ContainsFunc(allows, git)
}

// SamePush says whether two decisions let the same be pushed (see Decision.Push).
func SamePush(a, b *forage.GitRule) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Repos, b.Repos) && slices.Equal(a.Push, b.Push)
}

// judgeReading judges a request whose path has those segments. named says
// that a rule denies it, rather than that none allows it.
func judgeReading(r Request, path []string, allows, denies []candidate) (d Decision, named bool) {
	best, special, push := pick(r, path, allows)
	lower := make([]string, len(path))
	for i, s := range path {
		lower[i] = strings.ToLower(s)
	}
	for _, c := range denies {
		rank, ok := c.matchesPath(lower) // as its globs are
		if !ok || !c.deniesMethod(r.Method) {
			continue
		}
		if best.rule == nil || c.rank > best.rank || (grade{rank, len(c.methods) > 0}).compare(special) >= 0 {
			return byRule(c), true
		}
	}
	if best.rule == nil {
		reason := fmt.Sprintf("no rule for %s allows %.20q %.200q", destination(r), r.Method, "/"+strings.Join(path, "/"))
		if len(allows) == 0 {
			reason = undeniable(r, nil).Reason
		}
		return denied(RuleDefaultDeny, reason), false
	}
	d = allowed(r, best)
	d.Push = push
	return d, false
}

// pick finds the rule that allows a request: the one with the most special path, and of those one
// that names methods before one that doesn't. What git asks of a repository is a matter of the
// rules about git that are the most special for it, if there are some.
func pick(r Request, path []string, allows []candidate) (best candidate, special grade, push *forage.GitRule) {
	if at, ok := gitRank(path, allows); ok {
		for _, c := range allows {
			if best.rule == nil && c.allowsGit(r, path, at) {
				best, special = c, grade{at, true}
			}
		}
		if best.rule != nil && isPush(path) {
			push = pushOf(r, path, at, allows)
		}
		return best, special, push
	}
	for _, c := range allows {
		rank, ok := c.matchesPath(path)
		if !ok || len(c.methods) > 0 && !slices.Contains(c.methods, r.Method) {
			continue
		}
		if g := (grade{rank, len(c.methods) > 0}); best.rule == nil || g.compare(special) > 0 {
			best, special = c, g
		}
	}
	return best, special, nil
}

// matchesPath is the rank of the most special of the rule's globs that match.
func (r *rule) matchesPath(path []string) (rank globRank, ok bool) {
	if len(r.paths)+len(r.git) == 0 {
		return noPath, true
	}
	for _, g := range r.paths {
		if g.match(path) && (!ok || g.rank.compare(rank) > 0) {
			rank, ok = g.rank, true
		}
	}
	return rank, ok
}

// deniesMethod says whether a rule that denies is for that method, in any case.
func (r *rule) deniesMethod(method string) bool {
	return len(r.methods) == 0 || slices.Contains(r.methods, strings.ToUpper(method))
}
