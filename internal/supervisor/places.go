package supervisor

import (
	"path/filepath"

	"forage/internal/store"
)

// Places are the two folders that everything of a user's sandboxes is in.
type Places struct{ store.Places }

// Paths are one sandbox's places.
type Paths struct {
	store.Paths
	Dir        string // run-time folder
	HostKey    string
	KnownHosts string // for OpenSSH clients
	Crash      string // what a supervisor printed when it died
	ImageCache string // shared by all sandboxes
}

// Of names the places of one sandbox.
func (p Places) Of(name string) Paths {
	kept := store.PathsIn(p.State, name)
	return Paths{
		Paths:      kept,
		Dir:        filepath.Join(p.Runtime, name),
		HostKey:    filepath.Join(kept.Generated, "host_key"),
		KnownHosts: filepath.Join(kept.Generated, "known_hosts"),
		Crash:      filepath.Join(kept.Generated, "supervisor.err"),
		ImageCache: filepath.Join(p.State, "images"),
	}
}
