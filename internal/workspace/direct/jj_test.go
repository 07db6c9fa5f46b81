package direct_test

import (
	"path/filepath"
	"testing"

	"forage/internal/workspace"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/workspacetest"
)

// TestJJ puts the user's own folder with a jj repository to the suite: of jj alone, and shared with git.
func TestJJ(t *testing.T) {
	for name, arg := range map[string]string{"alone": "--no-colocate", "colocated": "--colocate"} {
		t.Run(name, func(t *testing.T) {
			workspacetest.Run(t, workspacetest.Subject{
				New: func(places workspace.Places) workspace.Provider { return direct.Provider{Places: places} }, JJ: true,
				Source: func(u *workspacetest.User, dir string) string {
					return u.JJ(filepath.Join(dir, "repo"), arg)
				},
				Refuses: func(name string) bool { return name == "jj with conflicts" },
			})
		})
	}
}
