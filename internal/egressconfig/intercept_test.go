package egressconfig

import (
	"testing"

	"forage"
)

func TestIntercepts(t *testing.T) {
	for name, test := range map[string]struct {
		network forage.Network
		secrets []forage.Binding
		traffic forage.Traffic
		want    bool
	}{
		"nothing":             {},
		"hosts":               {network: forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"a.test"}, Monitor: true}},
		"a rule for a host":   {network: forage.Network{Rules: []forage.Rule{{Host: "a.test", Deny: true}}}},
		"bounds of transport": {traffic: forage.Traffic{RequestsPerMinute: 1, BytesMax: 1, ConnectionsMax: 1}},
		"a secret":            {secrets: []forage.Binding{{Secret: "x"}}, want: true},
		"tokens":              {traffic: forage.Traffic{MaxTokens: 1}, want: true},
		"cost":                {traffic: forage.Traffic{MaxCost: 0.5}, want: true},
		"methods":             {network: forage.Network{Rules: []forage.Rule{{Host: "a"}, {Host: "b", Methods: []string{"GET"}}}}, want: true},
		"paths":               {network: forage.Network{Rules: []forage.Rule{{Host: "a", Paths: []string{"/x"}}}}, want: true},
		"git":                 {network: forage.Network{Rules: []forage.Rule{{Host: "a", Git: &forage.GitRule{}}}}, want: true},
		"inspect":             {network: forage.Network{Rules: []forage.Rule{{Host: "a", Inspect: true}}}, want: true},
	} {
		if got := Intercepts(test.network, test.secrets, test.traffic); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
