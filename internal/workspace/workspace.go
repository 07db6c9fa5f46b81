// Package workspace is the seam between a sandbox and the user's files: how
// what is mounted at /workspace comes to be, and how it goes away without
// losing work. Each way is in a folder of its own.
package workspace

import (
	"context"

	"forage"
)

// Provider makes, watches and removes one kind of workspace.
type Provider interface {
	// Prepare makes the workspace that request names and returns what the
	// plan holds of it. What it made is undone when it fails.
	Prepare(ctx context.Context, request Request) (forage.Workspace, error)
	// Status says what would be lost with the workspace.
	Status(ctx context.Context, workspace forage.Workspace) (Status, error)
	// Remove takes away what Prepare made. Without force it refuses, with
	// ErrRefused, when work would be lost. An absent workspace succeeds.
	Remove(ctx context.Context, workspace forage.Workspace, force bool) error
}

// Request is what Prepare needs.
type Request struct {
	Path     string // the user's folder, absolute
	ReadOnly bool
	Home     string   // the caller's home folder
	Ours     []string // Forage's own folders, which no sandbox may see
}

// Status is the work in a workspace that is nowhere else.
type Status struct {
	Dirty    bool // changes that are not committed
	Unpushed bool // commits that are nowhere else
}
