// Package review shows what was done in a workspace, and brings it into the user's repository: the commits
// since the base and what is not committed, as objects of git that were checked when they came in. It prints nothing.
//
// Everything it computes, it computes in a store of its own beside the sandbox's metadata, which has the user's objects as
// alternates. The user's repository gets objects, and then a branch that moves, only from Apply.
package review

import (
	"forage/internal/workspace"
	"forage/internal/workspace/autorun"
	"forage/internal/workspace/gitrepo"
)

// Change is one file that differs from the base. Paths come from inside: escape them.
type Change struct {
	Path    string `json:"path"`
	OldPath string `json:"oldPath,omitempty"` // of a rename
	Status  Status `json:"status"`
	OldMode uint32 `json:"oldMode"` // as git has it: 0100644; 0: absent
	NewMode uint32 `json:"newMode"`
	Added   int    `json:"added"` // lines; 0 for a binary file
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary,omitempty"`

	oldID, newID string
}

// Status says what happened to a file.
type Status string

// What can happen to a file.
const (
	Added       Status = "added"
	Modified    Status = "modified"
	Deleted     Status = "deleted"
	Renamed     Status = "renamed"
	TypeChanged Status = "type changed"
)

// Review is all that was done in one part of a workspace.
type Review struct {
	Part    string             `json:"part"`
	Base    string             `json:"base,omitempty"` // the commit that it is compared with; "" is nothing at all
	Branch  string             `json:"branch,omitempty"`
	Commits []workspace.Commit `json:"commits,omitempty"` // since the base, oldest first, at most workspace.MaxListed
	// CommitsCount is how many there are.
	CommitsCount int `json:"commitsCount,omitempty"`
	// Findings are the files that host tools would execute, worst first: to be looked at before all others.
	Findings    []autorun.Finding `json:"findings,omitempty"`
	Changes     []Change          `json:"changes"`
	Uncommitted []string          `json:"uncommitted,omitempty"` // paths that no commit has
	// Left are files that are no part of the review, and of what apply would bring.
	Left []gitrepo.Left `json:"left,omitempty"`
	// Tree is the content that was reviewed, in hex: what apply would bring.
	Tree string `json:"tree,omitempty"`
	// Notes are what else there is to know.
	Notes []string `json:"notes,omitempty"`
}

// Modes of files in trees.
const (
	modeFile    = 0o100000
	modeLink    = 0o120000
	modeGitlink = 0o160000
)
