package plan

import "testing"

// Git and jj take an empty variable for none.
func TestConfigHome(t *testing.T) {
	for value, want := range map[string]string{"/etc/mine": "/etc/mine", "": "/home/me/.config", "relative": "/home/me/.config"} {
		caller := Caller{Home: "/home/me", Getenv: func(string) (string, bool) { return value, true }}
		if got := caller.configHome(); got != want {
			t.Errorf("with XDG_CONFIG_HOME=%q it is %s, want %s", value, got, want)
		}
	}
}
