// Package provider knows the services that agents use most: how their credentials
// look and where they go, what agents need inside, and how their logins
// are kept. It is data.
package provider

import (
	"slices"

	"forage"
)

// Service is a service, and the secret of its name. The configuration calls it a preset.
type Service struct {
	Name string // of the secret, unless it says another
	Uses []forage.SecretUse
	// LoginUses are the uses in place of Uses where the secret is a login. The hosts of
	// its token endpoint, which are answered by us, are among them.
	LoginUses []forage.SecretUse
	// Shape is what a placeholder looks like: a prefix that agents check, and the
	// length of the whole. Alphabet is what the rest is made of; "" is letters and digits.
	Prefix   string
	Length   int
	Alphabet string
	// Env is the variable that the service's clients expect it in, on the host and inside.
	// The first is the usual one.
	Env []string
	// With are variables inside without which the clients don't use those of Env.
	With map[string]string
	// BasePath is what addresses of the service end with, as its clients expect them ("/v1").
	BasePath string
	// Login is the login that serves instead where there is no key: its kind and its
	// file below the home; "" is none.
	Login     forage.LoginKind
	LoginFile string
}

// Lookup is the service of that name.
func Lookup(name string) (Service, bool) {
	return find(func(p Service) bool { return p.Name == name })
}

// ForLogin is the service whose login is of that kind.
func ForLogin(kind forage.LoginKind) (Service, bool) {
	return find(func(p Service) bool { return kind != "" && p.Login == kind })
}

func find(is func(Service) bool) (Service, bool) {
	all := services()
	if at := slices.IndexFunc(all, is); at >= 0 {
		return all[at], true
	}
	return Service{}, false
}

// Of is the service of a secret: the one of its preset, else of its own name, else of its login.
func Of(preset, name string, login forage.LoginKind) Service {
	for _, known := range []string{preset, name} {
		if p, ok := Lookup(known); ok {
			return p
		}
	}
	p, _ := ForLogin(login)
	return p
}

// Names are the names of all services, sorted.
func Names() []string {
	var names []string
	for _, p := range services() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
