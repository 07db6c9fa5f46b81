package config

import (
	"errors"
	"math"
	"slices"

	"forage"
	"forage/internal/policy"
)

// rules are the rules as they are written; each that means nothing is a problem where it is.
func (v converter) rules(raw []rawRule, at []any) []forage.Rule {
	var rules []forage.Rule
	for i, r := range raw {
		rule := forage.Rule{Methods: slices.Clone(r.Methods), Paths: slices.Clone(r.Paths), Deny: isTrue(r.Deny), Inspect: isTrue(r.Inspect)}
		setText(&rule.Host, r.Host)
		if r.Git != nil {
			rule.Git = &forage.GitRule{Repos: slices.Clone(r.Git.Repos), Push: slices.Clone(r.Git.Push)}
		}
		rules = append(rules, rule)
		at := append(slices.Clone(at), i)
		for _, empty := range [...]struct {
			key  string
			list []string
		}{{"methods", r.Methods}, {"paths", r.Paths}} {
			if empty.list != nil && len(empty.list) == 0 {
				v.wrong(append(slices.Clone(at), empty.key), "expected at least one; without the key any will do")
			}
		}
		if policy.IsSet(rule.Host) {
			v.check(checkSetName(rule.Host[1:]), append(slices.Clone(at), "host")...)
			rule.Host = "one-of-the-set.invalid"
		}
		var wrong *policy.RuleError
		if err := policy.CheckRule(rule); errors.As(err, &wrong) {
			v.wrong(append(slices.Clone(at), wrong.Path...), "%v", wrong.Err)
		}
	}
	return rules
}

// maxProjectRules bounds the rules of a project's file, each path counted: they
// are asked about every request.
const maxProjectRules = 200

// projectRules are the rules of a project's file, which anybody may have written.
func (v converter) projectRules(raw []rawRule) []forage.Rule {
	count := 0
	for i, r := range raw {
		if r.Host != nil && policy.IsSet(*r.Host) { // to ask the user's tools is not for a project
			v.wrong([]any{"rules", i, "host"}, "%.80q: expected a host: a project's rules can't name a set", *r.Host)
		}
		if count += max(1, len(r.Paths)); count > maxProjectRules {
			v.wrong([]any{"rules", i}, "more than %d rules and paths", maxProjectRules)
			return nil
		}
	}
	return v.rules(raw, []any{"rules"})
}

// traffic reads bounds on what is asked of the network.
func (v converter) traffic(t *forage.Traffic, raw *rawTraffic, at []any) {
	if raw == nil {
		return
	}
	key := func(name string) []any { return append(slices.Clone(at), name) }
	for _, bound := range [...]struct {
		name string
		raw  *int64
		to   *int64
	}{
		{"requestsPerMinute", raw.RequestsPerMinute, &t.RequestsPerMinute},
		{"connectionsMax", raw.ConnectionsMax, &t.ConnectionsMax},
		{"maxTokens", raw.MaxTokens, &t.MaxTokens},
	} {
		if bound.raw == nil {
			continue
		}
		if *bound.to = *bound.raw; *bound.to < 1 {
			v.wrong(key(bound.name), "%d: expected at least 1", *bound.to)
		}
	}
	if raw.BytesMax != nil {
		var err error
		t.BytesMax, err = parseSize(*raw.BytesMax)
		v.check(quoted(*raw.BytesMax, err), key("bytesMax")...)
	}
	if raw.MaxCost != nil {
		if t.MaxCost = *raw.MaxCost; math.IsNaN(t.MaxCost) || t.MaxCost <= 0 {
			v.wrong(key("maxCost"), "expected US dollars, more than 0, such as 5 or 2.50")
			t.MaxCost = 0
		}
	}
}

// checkSecretMode reads how agents get their secrets.
func checkSecretMode(text string) (forage.SecretMode, error) {
	switch text {
	case "inject":
		return forage.SecretsInjected, nil
	case string(forage.SecretsWrapped):
		return forage.SecretsWrapped, nil
	}
	return "", quoted(text, errors.New("expected inject or wrapper"))
}
