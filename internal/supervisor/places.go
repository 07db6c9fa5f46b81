package supervisor

import "path/filepath"

// Places are the two folders that everything of a user's sandboxes is in.
type Places struct {
	StateDir   string // kept: records, keys, logs, images
	RuntimeDir string // gone with the machine's next start: sockets, locks
}

// Paths are one sandbox's places.
type Paths struct {
	Dir        string // run-time folder
	Generated  string // files made for it
	HostKey    string
	KnownHosts string // for OpenSSH clients
	Crash      string // what a supervisor printed when it died
	Log        string
	Audit      string
	ImageCache string // shared by all sandboxes
}

// Of names the places of one sandbox.
func (p Places) Of(name string) Paths {
	kept := filepath.Join(p.StateDir, "sandboxes", name)
	generated := kept + ".generated"
	return Paths{
		Dir:        filepath.Join(p.RuntimeDir, name),
		Generated:  generated,
		HostKey:    filepath.Join(generated, "host_key"),
		KnownHosts: filepath.Join(generated, "known_hosts"),
		Crash:      filepath.Join(generated, "supervisor.err"),
		Log:        kept + ".log",
		Audit:      kept + ".audit.jsonl",
		ImageCache: filepath.Join(p.StateDir, "images"),
	}
}
