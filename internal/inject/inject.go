// Package inject decides what an agent finds inside its sandbox in place of
// what it has on the host: placeholders in its environment, login files, git's
// configuration, wrappers. It reads nothing of a secret but what is none.
package inject

import "forage"

// Contribution is what is to be added to a sandbox's Spec. Contributions are
// merged purely; two that disagree are an error.
type Contribution struct {
	Env   map[string]string
	Files []forage.File
	// Path are folders to look for commands in before all others.
	Path []string
}
