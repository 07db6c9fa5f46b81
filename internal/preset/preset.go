// Package preset knows the services that agents use most: how their credentials
// look and where they go, what agents need inside, and how their logins
// are kept. It is data.
package preset

import "forage"

// Preset is what is built in for secrets of one name.
type Preset struct {
	Name string // of the secret, unless it says another
	Uses []forage.SecretUse
	// Shape is what a placeholder looks like: a prefix that agents check, and the
	// length of the whole.
	Prefix string
	Length int
	// Env is the variable that the service's clients expect it in, on the host and inside.
	Env []string
	// Login is the login that serves instead where there is no key: its kind and its
	// file below the home; "" is none.
	Login     forage.LoginKind
	LoginFile string
}

// Lookup is the preset of that name.
func Lookup(name string) (Preset, bool) { return Preset{}, false }

// Names are the names of all presets, sorted.
func Names() []string { return nil }
