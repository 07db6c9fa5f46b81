package inject

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/config"
	"forage/internal/provider"
	"forage/internal/secrets/login"
)

// Scope is for whom secrets are bound.
type Scope struct {
	Sandbox string // its name: placeholders differ between sandboxes
	Home    string // the caller's, on the host, which agents' logins are below
	// Set are the hosts of a set that the user's tools know; nil knows none.
	Set func(name string) ([]string, error)
}

// Binding is what a secret's configuration comes to, with what is built in for
// its service where it says nothing.
func Binding(name string, secret config.Secret, scope Scope) (forage.Binding, error) {
	service := ServiceOf(name, secret)
	// Says where the value is.
	source := forage.SecretSource{File: secret.File, Env: secret.Env, Command: slices.Clone(secret.Command), Keyring: secret.Keyring}
	if secret.Login != "" {
		file := secret.LoginFile
		if file == "" {
			own, ok := provider.ForLogin(secret.Login)
			if !ok || scope.Home == "" {
				return forage.Binding{}, forage.WithHint(
					forage.Errorf(forage.ErrUsage, "secret %s: there is no usual place for its login", name), "say where with loginFile")
			}
			file = filepath.Join(scope.Home, own.LoginFile)
		}
		source.Login = &forage.Login{Kind: secret.Login, File: file}
	}
	uses, err := usesOf(name, secret, service)
	if err != nil {
		return forage.Binding{}, err
	}
	// Puts the host of a registry where a preset names its set.
	for _, use := range uses {
		for i, host := range use.Hosts {
			prefix, set, found := strings.Cut(host, provider.SetMark)
			if !found {
				continue
			}
			err := fmt.Errorf("the host of %s%s is not known here", provider.SetMark, set)
			var hosts []string
			if scope.Set != nil {
				hosts, err = scope.Set(set)
			}
			if err != nil {
				return forage.Binding{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "secret %s: %w", name, err), "add hosts to [secrets."+name+"]")
			}
			use.Hosts[i] = prefix + strings.TrimSuffix(hosts[0], ":443")
		}
	}

	b := forage.Binding{Secret: name, Source: source, Uses: uses}
	if source.Login != nil {
		b.Placeholder, b.Refresh, err = login.Placeholders(source.Login.Kind, scope.Sandbox, name)
		return b, err
	}
	service.Uses = uses // which say whether it is one that signs
	b.Placeholder = provider.Placeholder(service, scope.Sandbox, name)
	return b, nil
}

// ServiceOf is the service that a secret names, or that of its own name or login;
// the zero Service is none. A secret of another name for other hosts has no part in the
// variables of the service, which are the service's own secret's.
func ServiceOf(name string, secret config.Secret) provider.Service {
	p := provider.Of(secret.Preset, name, secret.Login)
	if name != p.Name && len(secret.Hosts) > 0 {
		p.Env = nil
	}
	return p
}

// usesOf says how the secret is put into which requests: as the configuration
// says, and as is usual for the service where it does not.
func usesOf(name string, secret config.Secret, service provider.Service) ([]forage.SecretUse, error) {
	usual := service.Uses
	if secret.Login != "" {
		usual = service.LoginUses
	}
	if !(secret.Place != "" || secret.Header != "" || secret.Format != "" || secret.Query != "" || secret.User != "") {
		if len(secret.Hosts) == 0 {
			if len(usual) == 0 {
				return nil, noHosts(name)
			}
			return cloneUses(usual), nil
		}
		if len(usual) > 0 {
			return movedUses(usual, secret.Hosts), nil
		}
	}
	hosts := slices.Clone(secret.Hosts)
	if len(hosts) == 0 {
		for _, use := range usual {
			for _, host := range use.Hosts {
				if !slices.Contains(hosts, host) {
					hosts = append(hosts, host)
				}
			}
		}
	}
	if len(hosts) == 0 {
		return nil, noHosts(name)
	}
	return []forage.SecretUse{ownUse(secret, hosts, usual)}, nil
}

func noHosts(name string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUsage, "secret %s does not say where it may go", name),
		"add hosts to [secrets."+name+"], or preset: "+strings.Join(provider.Names(), ", "))
}

// ownUse is the one use that the configuration describes.
func ownUse(s config.Secret, hosts []string, usual []forage.SecretUse) forage.SecretUse {
	use := forage.SecretUse{Hosts: hosts, Place: s.Place, User: s.User}
	if use.Place == "" {
		switch {
		case s.Query != "":
			use.Place = forage.PlaceQuery
		case s.User != "":
			use.Place = forage.PlaceBasic
		default:
			use.Place = forage.PlaceHeader
		}
	}
	switch use.Place {
	case forage.PlaceQuery:
		use.Name = s.Query
	case forage.PlaceHeader, forage.PlaceReplace:
		use.Name, use.Format = s.Header, s.Format
		use.Name = cmp.Or(use.Name, "Authorization")
	}
	for _, other := range usual {
		if slices.Equal(other.Hosts, hosts) {
			use.Gateway = other.Gateway
		}
	}
	return use
}

// movedUses are the service's uses at hosts of the user's own: a mirror, or a
// company's installation, which has all of the service on one host. Two uses
// can't share a header: a password is taken wherever a bearer is, and not the other way round.
// Where a login is renewed does not move.
func movedUses(usual []forage.SecretUse, hosts []string) []forage.SecretUse {
	places := make(map[forage.SecretPlace]bool)
	for _, use := range usual {
		places[use.Place] = true
	}
	var moved []forage.SecretUse
	done := make(map[forage.SecretPlace]bool)
	for _, use := range usual {
		switch {
		case use.Place == forage.PlaceReplace:
			use.Hosts = slices.Clone(use.Hosts)
		case done[use.Place] || use.Place == forage.PlaceBearer && places[forage.PlaceBasic]:
			continue
		default:
			use.Hosts, done[use.Place] = slices.Clone(hosts), true
		}
		moved = append(moved, use)
	}
	return moved
}

func cloneUses(uses []forage.SecretUse) []forage.SecretUse {
	cloned := slices.Clone(uses)
	for i := range cloned {
		cloned[i].Hosts = slices.Clone(cloned[i].Hosts)
	}
	return cloned
}
