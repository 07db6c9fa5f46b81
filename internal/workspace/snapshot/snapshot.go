// Package snapshot keeps and restores the exact content of folders: contents are addressed by their digest and
// kept once, by reflink where the file system has it. It follows no link, and believes nothing about a folder that the
// agent can change meanwhile.
package snapshot

import (
	"context"
	"time"

	"forage"
)

// Folder is one folder that belongs to a snapshot.
type Folder struct {
	Name string // "main", "main.repository"
	Path string
	// Ignored says of a path, relative to Path and with a slash at the end of a folder, whether it is
	// left out; nil: nothing is.
	Ignored func(path string) bool
}

// Snapshot is one that is kept.
type Snapshot struct {
	ID      string    `json:"id"` // unique within a sandbox: "20260115-103000", "-2" added where that is taken
	Sandbox string    `json:"sandbox"`
	Label   string    `json:"label,omitempty"` // the user's, or "before reset", "before apply"
	Made    time.Time `json:"made"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"` // of all files
	Folders []string  `json:"folders"`
}

// Store keeps snapshots in Dir.
type Store struct {
	Dir string
}

// Create keeps folders as they are now.
func (s Store) Create(ctx context.Context, sandbox, label string, folders []Folder) (Snapshot, error) {
	return Snapshot{}, forage.Errorf(forage.ErrUnsupported, "snapshots are not in this version")
}

// List is every snapshot of a sandbox, oldest first; "" is of all sandboxes.
func (s Store) List(sandbox string) ([]Snapshot, error) { return nil, nil }

// Restore makes folders exactly as they were: what is not in the snapshot goes, but for what Ignored leaves out. Folders of the
// snapshot that are not named stay in it.
func (s Store) Restore(ctx context.Context, sandbox, id string, folders []Folder) error {
	return forage.Errorf(forage.ErrUnsupported, "snapshots are not in this version")
}

// Delete forgets one. Contents that no snapshot needs any more go with Collect.
func (s Store) Delete(sandbox, id string) error { return nil }

// Collect removes the contents that no snapshot needs, and the snapshots for which drop says so.
func (s Store) Collect(drop func(Snapshot) bool, dryRun bool) ([]string, error) { return nil, nil }
