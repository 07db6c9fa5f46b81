package supervisor

import (
	"testing"

	"forage"
)

func TestNetworkText(t *testing.T) {
	rules := []forage.Rule{{Host: "a.example", Deny: true}, {Host: "b.example"}}
	for name, test := range map[string]struct {
		network forage.Network
		want    string
	}{
		"open":      {forage.Network{Mode: forage.NetworkFull}, "full"},
		"rules":     {forage.Network{Mode: forage.NetworkFull, Rules: rules}, "full: (2 rules)"},
		"both":      {forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"c.example", "d.example"}, Rules: rules}, "restricted: c.example d.example (2 rules)"},
		"recording": {forage.Network{Mode: forage.NetworkRestricted, Monitor: true, Rules: rules}, "restricted, monitor on: (2 rules)"},
	} {
		if got := networkText(test.network); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
