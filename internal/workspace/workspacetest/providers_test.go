package workspacetest_test

import (
	"path/filepath"
	"testing"

	"forage/internal/workspace"
	"forage/internal/workspace/clone"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/workspacetest"
	"forage/internal/workspace/worktree"
)

func gitSource(u *workspacetest.User, dir string) string {
	return u.Repository(filepath.Join(dir, "repo"))
}

// The providers for jj run the suite in their own packages, jj and direct.

func TestWorktree(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:    func(p workspace.Places) workspace.Provider { return worktree.Provider{Places: p} },
		Source: gitSource,
	})
}

func TestDirect(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:     func(p workspace.Places) workspace.Provider { return direct.Provider{Places: p} },
		Source:  gitSource,
		Turn:    1,
		Refuses: func(name string) bool { return name == "bare" },
	})
}

func TestClone(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:    func(p workspace.Places) workspace.Provider { return clone.Provider{Places: p} },
		Source: gitSource,
		Turn:   2,
	})
}
