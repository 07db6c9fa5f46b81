package gitrepo

import (
	"time"

	"forage/internal/jail"
)

// jailed is a git in a jail that sees no more than these folders, in a git directory of ours. No link is followed to one of them:
// who is inside can put one in the place of what is theirs, at any moment, and the jail would see what it leads to.
func jailed(dir string, readOnly []string, args ...string) jail.Command {
	return jail.Command{
		Args: append([]string{"git"}, args...), Dir: dir, ReadOnly: readOnly,
		Env:    append(environment(), "GIT_PROTOCOL=version=2", "GIT_DIR="+dir, readsHostile[0]),
		Limits: jail.Limits{CPU: 10 * time.Minute, Time: servePatience, Output: maxFetched},
	}
}
