package gitrepo

import (
	"testing"

	"forage"
)

// TestSandboxOfASubmodule: its metadata is one folder deeper than that of the part that it is in.
func TestSandboxOfASubmodule(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		"/state/repositories/fix/main":            "fix",
		"/state/repositories/fix/main/submodule0": "fix",
	} {
		w := forage.Workspace{Name: "main", Repository: &forage.Repository{Dir: dir}}
		if got := Sandbox(w); got != want {
			t.Errorf("%s is of %q, not of %q", dir, got, want)
		}
	}
}
