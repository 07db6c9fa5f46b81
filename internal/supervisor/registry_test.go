package supervisor

import (
	"errors"
	"io/fs"
	"testing"

	"forage"
	"forage/internal/runtime"
)

func TestChoose(t *testing.T) {
	host := map[string]string{"/proc/sys/user/max_user_namespaces": "1000", "/proc/self/attr/current": "unconfined\n"}
	restricted := map[string]string{
		"/proc/sys/user/max_user_namespaces": "1000", "/proc/self/attr/current": "unconfined\n",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
	}
	profiled := map[string]string{
		"/proc/sys/user/max_user_namespaces": "1000", "/proc/self/attr/current": "forage-ctl (unconfined)\n",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
	}
	for _, tc := range []struct {
		name   string
		order  []string
		uid    int
		files  map[string]string
		forbid string
		want   string
		passed int
	}{
		{"a usual host", nil, 1000, host, "", "native", 0},
		{"the user's order", []string{"bwrap", "native"}, 1000, host, "", "bwrap", 0},
		{"not for root", []string{"bwrap", "native"}, 0, host, "", "native", 1},
		{"forbidden", nil, 1000, host, "native", "bwrap", 1},
		{"AppArmor lets bubblewrap alone make namespaces", nil, 1000, restricted, "", "bwrap", 1},
		{"AppArmor knows us", nil, 1000, profiled, "", "native", 0},
		{"not in this version", []string{"vm", "bwrap"}, 1000, host, "", "bwrap", 1},
		{"none", []string{"vm"}, 1000, host, "", "vm", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, passed := Runtimes{Order: tc.order}.Choose(runtime.Environment{
				UID:      tc.uid,
				LookPath: func(file string) (string, error) { return "/usr/bin/" + file, nil },
				ReadFile: func(path string) ([]byte, error) {
					if text, ok := tc.files[path]; ok {
						return []byte(text), nil
					}
					return nil, fs.ErrNotExist
				},
			}, func(name string) error {
				if name == tc.forbid {
					return forage.Errorf(forage.ErrDenied, "forbidden")
				}
				return nil
			})
			if got != tc.want || len(passed) != tc.passed {
				t.Errorf("%s was chosen, want %s; passed over: %v", got, tc.want, passed)
			}
			for _, p := range passed {
				if p.OK || p.Detail == "" {
					t.Errorf("%+v was passed over without a reason", p)
				}
			}
		})
	}
}

func TestUnknownRuntime(t *testing.T) {
	if _, err := (Runtimes{}).New("vm"); !errors.Is(err, forage.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := (Runtimes{}).New("x"); !errors.Is(err, forage.ErrUsage) {
		t.Error(err)
	}
}
