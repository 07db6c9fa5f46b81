package jj_test

import (
	"path/filepath"
	"testing"

	"forage/internal/workspace"
	"forage/internal/workspace/jj"
	"forage/internal/workspace/workspacetest"
)

func provider(places workspace.Places) workspace.Provider { return jj.Provider{Places: places} }

func TestProvider(t *testing.T) {
	t.Parallel()
	workspacetest.Run(t, workspacetest.Subject{
		New: provider, JJ: true,
		Source: func(u *workspacetest.User, dir string) string {
			return u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
		},
		Refuses: func(name string) bool { return name == "jj with conflicts" },
	})
}
