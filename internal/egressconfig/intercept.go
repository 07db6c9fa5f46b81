package egressconfig

import (
	"slices"

	"forage"
)

// Intercepts says whether TLS to some host has to be looked into: to put secrets into requests, to
// judge them by method or path, or to count what language models take. Where it says no, there is
// no certificate authority.
func Intercepts(network forage.Network, injected []forage.Binding, traffic forage.Traffic) bool {
	return len(injected) > 0 || traffic.MaxTokens > 0 || traffic.MaxCost > 0 || slices.ContainsFunc(network.Rules, looksInside)
}

// looksInside says whether a rule is about more than its host.
func looksInside(r forage.Rule) bool {
	return r.Inspect || r.Git != nil || len(r.Methods) > 0 || len(r.Paths) > 0
}
