package egressconfig

import (
	"forage"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/policy"
	"forage/internal/secrets"
)

// Foresee says what an engine would do with a connection besides judging it,
// without starting one: which secret it would put into requests to r ("" is none),
// and whether it would look into them. d is the decision on the connection.
func Foresee(r policy.Request, d policy.Decision, bindings []forage.Binding, traffic forage.Traffic) (secret string, looksInside bool, err error) {
	set, err := compileBindings(bindings)
	if err != nil {
		return "", false, err
	}
	if c := set.For(r.Dest(), r.Port); c != nil {
		secret = c.Secret
	}
	budget := traffic.MaxTokens > 0 || traffic.MaxCost > 0
	return secret, d.Inspect || secret != "" || !d.Port && set.Near(r.Dest()) != nil || budget && meter.Metered(r.Host), nil
}

// compileBindings compiles bindings without the sources of their values.
func compileBindings(bindings []forage.Binding) (*credential.Set, error) {
	sources := make(map[string]secrets.Source, len(bindings))
	for _, b := range bindings {
		sources[b.Secret] = noSource{}
	}
	return credential.Compile(bindings, sources)
}
