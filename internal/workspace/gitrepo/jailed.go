package gitrepo

import (
	"time"

	"forage/internal/jail"
	"forage/internal/workspace"
)

// jailed is a git in a jail that sees no more than these folders, in a git directory of ours.
func jailed(dir string, readOnly []string, args ...string) jail.Command {
	for i, path := range readOnly {
		readOnly[i] = workspace.Resolved(path)
	}
	return jail.Command{
		Args: append([]string{"git"}, args...), Dir: workspace.Resolved(dir), ReadOnly: readOnly,
		Env:    append(environment(), "GIT_PROTOCOL=version=2", "GIT_DIR="+workspace.Resolved(dir), readsHostile[0]),
		Limits: jail.Limits{CPU: 10 * time.Minute, Time: servePatience, Output: maxFetched},
	}
}
