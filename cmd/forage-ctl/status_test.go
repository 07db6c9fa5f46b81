package main

import (
	"testing"

	"forage"
)

func TestNetworkLine(t *testing.T) {
	rules := []forage.Rule{{Host: "a.example"}, {Host: "b.example", Deny: true}}
	for name, c := range map[string]struct {
		network forage.Network
		want    string
	}{
		"nothing":   {forage.Network{}, "none"},
		"hosts":     {forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"a.example", "b.example:22"}}, "restricted: a.example b.example:22"},
		"rules":     {forage.Network{Mode: forage.NetworkRestricted, Rules: rules}, "restricted: (2 rules)"},
		"both":      {forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"c.example"}, Rules: rules}, "restricted: c.example (2 rules)"},
		"recording": {forage.Network{Mode: forage.NetworkFull, Monitor: true}, "full (monitor on)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := networkLine(c.network); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
