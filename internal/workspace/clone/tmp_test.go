package clone

import (
	"path/filepath"
	"testing"

	"forage/internal/workspace"
	"forage/internal/workspace/workspacetest"
)

func TestTmpSuite(t *testing.T) {
	workspacetest.Run(t, workspacetest.Subject{
		New:    func(places workspace.Places) workspace.Provider { return Provider{Places: places} },
		Source: func(u *workspacetest.User, dir string) string { return u.Repository(filepath.Join(dir, "repo")) },
		Refuses: func(name string) bool {
			return name == "partial clone" || name == ".git is a link" || name == "HEAD is a link"
		},
	})
}
