package guest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a program returns is what its caller gets.
func TestExitCodes(t *testing.T) {
	sb := up(t, setup{})
	for _, test := range []struct {
		name   string
		argv   []string
		stdout string
		code   int
	}{
		{"success", []string{"true"}, "", 0},
		{"failure", []string{"false"}, "", 1},
		{"status", []string{"sh", "-c", "echo out; exit 42"}, "out\n", 42},
		{"status 255", []string{"sh", "-c", "exit 255"}, "", 255},
		{"not found", []string{"no-such-program"}, "", 127},
		{"path not found", []string{"/no/such/program"}, "", 127},
		{"not executable", []string{"/etc/passwd"}, "", 126},
		{"a folder", []string{"/etc"}, "", 126},
		{"SIGTERM", []string{"sh", "-c", "kill -TERM $$"}, "", 128 + 15},
		{"SIGKILL", []string{"sh", "-c", "kill -KILL $$"}, "", 128 + 9},
		{"SIGTRAP, which SSH has no name for", []string{"sh", "-c", "kill -TRAP $$"}, "", 128 + 5},
		{"a real-time signal", []string{"bash", "-c", "kill -35 $$"}, "", 128 + 35},
		{"exact arguments", []string{"printf", "[%s]", "a b", "", "$HOME", "'\"\n\t;", "\xff\xfe"}, "[a b][][$HOME]['\"\n\t;][\xff\xfe]", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, _, code := sb.run(test.argv...)
			if diff := cmp.Diff(test.stdout, stdout); diff != "" {
				t.Error(diff)
			}
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}
