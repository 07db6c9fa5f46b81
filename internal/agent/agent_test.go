package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"forage"
	"forage/internal/testdir"
)

// TestSettings: every agent's settings are well-formed, and have what is denied with skipAll too.
func TestSettings(t *testing.T) {
	for _, a := range All() {
		t.Run(a.Name, func(t *testing.T) {
			in := Inside{
				Home: "/home/agent", Dir: "/home/agent/.own", Work: "/work place", Key: "sk-\"placeholder\"-12345678901234567890",
				Permissions: forage.Permissions{SkipAll: true},
				Servers:     map[string]any{"one": map[string]any{"command": "sh", "args": []any{"-c", "a\x7f\"b"}}},
			}
			if a.Rules != "" {
				in.Permissions.Allow, in.Permissions.Deny = []string{"tool(allowed)"}, []string{"tool(denied *)"}
			}
			s := a.Settings(in)
			all := strings.Join(s.Args, " ")
			for _, f := range s.Files {
				all += string(f.Content)
				var table map[string]any
				switch {
				case strings.HasSuffix(f.Path, ".json"):
					if err := json.Unmarshal(f.Content, &table); err != nil {
						t.Errorf("%s: %v\n%s", f.Path, err, f.Content)
					}
				case strings.HasSuffix(f.Path, ".toml"):
					if err := toml.Unmarshal(f.Content, &table); err != nil {
						t.Errorf("%s: %v\n%s", f.Path, err, f.Content)
					}
				}
				if !f.Owned && f.Mode&0o222 != 0 || f.Owned && !strings.HasPrefix(f.Path, in.Home) {
					t.Errorf("%s: owned %v, mode %o", f.Path, f.Owned, f.Mode)
				}
			}
			if a.Rules != "" && !strings.Contains(all, "denied") {
				t.Errorf("what is denied is nowhere: %s", all)
			}
			if len(a.Command) == 0 || a.Command[0] != a.Name || a.Install == "" || len(a.Hosts) == 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestDeniedLast: of opencode's rules the last one that fits counts.
func TestDeniedLast(t *testing.T) {
	text, err := json.Marshal(opencodeRules(forage.Permissions{SkipAll: true, Allow: []string{"bash(rm foo)"}, Deny: []string{"bash(rm *)", "webfetch"}}))
	testdir.Must(t, err)
	if want := `{"*":"allow","bash":{"*":"allow","rm foo":"allow","rm *":"deny"},"webfetch":{"*":"allow","*":"deny"}}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}
