package worktree_test

import (
	"testing"

	"forage/internal/workspace"
	"forage/internal/workspace/workspacetest"
	"forage/internal/workspace/worktree"
)

func TestSuite(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:    func(places workspace.Places) workspace.Provider { return worktree.Provider{Places: places} },
		Source: func(u *workspacetest.User, dir string) string { return u.Repository(dir) },
	})
}
