// Package review shows what was done in a workspace, and brings it into the user's repository: the commits
// since the base and what is not committed, as objects of git that were checked when they came in. It prints nothing.
package review

import (
	"forage/internal/workspace"
	"forage/internal/workspace/hazard"
)

// Change is one file that differs from the base. Paths come from inside: escape them.
type Change struct {
	Path    string `json:"path"`
	OldPath string `json:"oldPath,omitempty"` // of a rename
	Status  string `json:"status"`            // added, modified, deleted, renamed, type changed
	OldMode uint32 `json:"oldMode"`           // as git has it: 0100644; 0: absent
	NewMode uint32 `json:"newMode"`
	Added   int    `json:"added"` // lines; -1 for a binary file
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary,omitempty"`
}

// Review is all that was done in one part of a workspace.
type Review struct {
	Part    string             `json:"part"`
	Base    string             `json:"base,omitempty"`
	Branch  string             `json:"branch,omitempty"`
	Commits []workspace.Commit `json:"commits,omitempty"` // since the base, oldest first
	// Hazards are the files that host tools would execute, worst first: to be looked at before all others.
	Hazards     []hazard.Finding `json:"hazards,omitempty"`
	Changes     []Change         `json:"changes"`
	Uncommitted []string         `json:"uncommitted,omitempty"` // paths among Changes that no commit has
	// Tree is the content that was reviewed, in hex: what apply would bring.
	Tree string `json:"tree,omitempty"`
}
