// Package worktree is the git-worktree workspace.Provider: a real worktree of the user's repository, with private metadata over its .git inside.
package worktree
