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

// refuses lists the odd repositories that may be refused.
func refuses(names ...string) func(string) bool {
	return func(name string) bool {
		for _, refused := range names {
			if name == refused {
				return true
			}
		}
		return false
	}
}

func TestWorktree(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:     func(p workspace.Places) workspace.Provider { return worktree.Provider{Places: p} },
		Source:  gitSource,
		Refuses: refuses("partial clone", "reftable", ".git is a link", "HEAD is a link"),
	})
}

func TestDirect(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:     func(p workspace.Places) workspace.Provider { return direct.Provider{Places: p} },
		Source:  gitSource,
		Turn:    1,
		Refuses: refuses("bare", "partial clone", "reftable", ".git is a link", "HEAD is a link"),
	})
}

func TestClone(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:     func(p workspace.Places) workspace.Provider { return clone.Provider{Places: p} },
		Source:  gitSource,
		Turn:    2,
		Refuses: refuses("partial clone", "reftable", ".git is a link", "HEAD is a link"),
	})
}
