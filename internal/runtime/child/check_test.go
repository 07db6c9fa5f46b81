package child

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	for _, f := range local(t.TempDir()).Check(context.Background()) {
		t.Logf("%+v", f)
		if f.Required && !f.OK {
			t.Errorf("%s: %s (fix: %s)", f.Name, f.Detail, f.Fix)
		}
		if !f.OK && f.Fix == "" {
			t.Errorf("%s: no fix", f.Name)
		}
	}
}

func TestFindBlocker(t *testing.T) {
	const usable = "/proc/sys/user/max_user_namespaces"
	for _, tc := range []struct {
		name string
		host map[string]string
		want string
	}{
		{"nothing", map[string]string{usable: "31000"}, ""},
		{"RHEL 7, hardened", map[string]string{usable: "0"}, "max_user_namespaces"},
		{"Debian 10", map[string]string{usable: "31000", "/proc/sys/kernel/unprivileged_userns_clone": "0"}, "unprivileged_userns_clone"},
		{"Debian 12", map[string]string{usable: "31000", "/proc/sys/kernel/unprivileged_userns_clone": "1"}, ""},
		{"Ubuntu 24.04", map[string]string{usable: "31000", "/proc/sys/kernel/unprivileged_userns_clone": "1", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "apparmor"},
		{"Ubuntu, allowed", map[string]string{usable: "31000", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0"}, ""},
		{"no CONFIG_USER_NS", map[string]string{}, "no user namespaces"},
		{"a container", map[string]string{usable: "31000", "/proc/self/status": "Name:\tx\nSeccomp:\t2\n"}, "seccomp"},
		{"Fedora", map[string]string{usable: "31000", "/sys/fs/selinux/enforce": "1"}, "selinux"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, blocked := findBlocker(func(path string) (string, bool) { text, ok := tc.host[path]; return text, ok })
			if diff := cmp.Diff(tc.want, got.name); diff != "" {
				t.Error(diff)
			}
			if blocked != (tc.want != "") || blocked && (got.fix == "" || got.detail == "") {
				t.Errorf("%+v, blocked: %v", got, blocked)
			}
		})
	}
}

func TestBlockerOnNixOS(t *testing.T) {
	host := map[string]string{"/etc/NIXOS": "", "/proc/sys/user/max_user_namespaces": "31000", "/proc/sys/kernel/unprivileged_userns_clone": "0"}
	got, _ := findBlocker(func(path string) (string, bool) { text, ok := host[path]; return text, ok })
	if want := "set security.unprivilegedUsernsClone = true; in the NixOS configuration"; got.fix != want {
		t.Errorf("%q, want %q", got.fix, want)
	}
}

func TestSpareGroup(t *testing.T) {
	const text = "bob:100000:65536\nann:165536:65536\n1001:300000:1\n1002:400000:0\n1003:x:y\n"
	for _, tc := range []struct {
		name  string
		names []string
		want  int
	}{
		{"by name", []string{"1000", "ann"}, 165536},
		{"by number", []string{"1001"}, 300000},
		{"an empty range", []string{"1002"}, 0},
		{"a broken line", []string{"1003"}, 0},
		{"not there", []string{"1004"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := spareGroup(text, tc.names...); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
