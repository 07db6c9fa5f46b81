package credential

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"forage"
	"forage/internal/policy"
	"forage/internal/secrets"
)

// placeholderMin is the length below which a placeholder could be part of something else.
const placeholderMin = 8

// Compile makes a Set of bindings. sources holds the source of each binding's
// secret by its name. Errors: two secrets for one host, a use that can't be understood.
func Compile(bindings []forage.Binding, sources map[string]secrets.Source) (*Set, error) {
	s := &Set{hosts: map[string][]*Credential{}, gateways: map[string]dest{}}
	seen := map[string]bool{}
	for _, b := range bindings {
		if err := s.bind(b, sources[b.Secret], seen[b.Secret]); err != nil {
			return nil, fmt.Errorf("the secret %q: %w", b.Secret, err)
		}
		seen[b.Secret] = true
	}
	return s, nil
}

func (s *Set) bind(b forage.Binding, source secrets.Source, again bool) error {
	switch {
	case source == nil:
		return errors.New("it has no source")
	case again:
		return errors.New("it is bound twice")
	}
	for i, use := range b.Uses {
		if err := checkUse(use, b.Placeholder); err != nil {
			return fmt.Errorf("use %d: %w", i+1, err)
		}
		for _, host := range use.Hosts {
			if err := s.bindHost(b, use, source, host); err != nil {
				return err
			}
		}
		if use.Gateway == "" {
			continue
		}
		at, wild, err := parseHost(use.Hosts[0])
		if err == nil && wild {
			err = fmt.Errorf("%s stands for many hosts and can't be reached as %s", use.Hosts[0], use.Gateway)
		}
		if _, taken := s.gateways[use.Gateway]; err == nil && taken {
			err = fmt.Errorf("the gateway %s is taken", use.Gateway)
		}
		if err != nil {
			return err
		}
		s.gateways[use.Gateway] = at
	}
	return nil
}

func (s *Set) bindHost(b forage.Binding, use forage.SecretUse, source secrets.Source, host string) error {
	at, wild, err := parseHost(host)
	if err != nil {
		return fmt.Errorf("host %q: %w", host, err)
	}
	name := at.host
	if wild {
		name = "*." + name
	}
	all := s.hosts[name]
	i := slices.IndexFunc(all, func(c *Credential) bool { return c.at == at })
	if i < 0 {
		if i = len(all); at.port == 443 {
			i = 0
		}
		c := &Credential{Secret: b.Secret, source: source, placeholder: b.Placeholder, refresh: b.Refresh, at: at, wild: wild, now: time.Now}
		all = slices.Insert(all, i, c)
		s.hosts[name] = all
	}
	c := all[i]
	if c.Secret != b.Secret {
		return forage.WithHint(fmt.Errorf("%s is a host of the secret %q too", host, c.Secret),
			"A host gets one secret. Take it from the hosts of one of them.")
	}
	for _, other := range c.uses {
		if placeOf(other) == placeOf(use) || other.Place == forage.PlaceSigV4 || use.Place == forage.PlaceSigV4 {
			return fmt.Errorf("two ways to put it into requests to %s write the same place", host)
		}
	}
	c.uses = append(c.uses, use)
	if use.Place == forage.PlaceQuery {
		c.params = append(c.params, Squeeze(use.Name))
		return nil
	}
	c.named = append(c.named, Squeeze(headerOf(use)))
	if use.Place == forage.PlaceReplace {
		c.marked = append(c.marked, use.Name)
	}
	return nil
}

// parseHost reads "host", "*.suffix" or an address, each with ":port".
func parseHost(text string) (at dest, wild bool, err error) {
	rest, wild := strings.CutPrefix(text, "*.")
	r, err := policy.ParseAuthority(rest, 443)
	switch {
	case err != nil:
		return dest{}, false, err
	case wild && r.Host == "":
		return dest{}, false, errors.New("an address has nothing below it")
	}
	return dest{r.Dest(), r.Port}, wild, nil
}

// headerOf is the header that a use writes; "" is none.
func headerOf(use forage.SecretUse) string {
	switch use.Place {
	case forage.PlaceHeader, forage.PlaceReplace:
		return use.Name
	case forage.PlaceQuery:
		return ""
	}
	return "Authorization"
}

// placeOf is what a use writes, as text that two uses of the same place have in common.
func placeOf(use forage.SecretUse) string {
	if use.Place == forage.PlaceQuery {
		return "query " + Squeeze(use.Name)
	}
	return "header " + Squeeze(headerOf(use))
}

func checkUse(use forage.SecretUse, placeholder string) error {
	if len(use.Hosts) == 0 {
		return errors.New("it has no hosts")
	}
	if use.Gateway != "" && strings.Trim(use.Gateway, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("gateway %q: expected lower-case letters, digits and -", use.Gateway)
	}
	switch use.Place {
	case forage.PlaceBearer, forage.PlaceSigV4:
		return nil
	case forage.PlaceBasic:
		if strings.Contains(use.User, ":") || hasControl(use.User) {
			return fmt.Errorf("user %q: expected no colon and no control characters (RFC 7617)", use.User)
		}
		return nil
	case forage.PlaceQuery:
		if Squeeze(use.Name) == "" {
			return fmt.Errorf("it needs the name of a query parameter, of at most %d characters", longestName)
		}
		return nil
	case forage.PlaceReplace:
		if len(placeholder) < placeholderMin {
			return fmt.Errorf("it needs a placeholder of at least %d characters", placeholderMin)
		}
		return checkHeader(use.Name)
	case forage.PlaceHeader:
		if use.Format != "" && (strings.Count(use.Format, "{}") != 1 || hasControl(use.Format)) {
			return fmt.Errorf(`format %q: expected text with "{}" once, where the value goes`, use.Format)
		}
		return checkHeader(use.Name)
	}
	return fmt.Errorf("%q is no place for a secret", use.Place)
}

func checkHeader(name string) error {
	if !httpguts.ValidHeaderFieldName(name) || len(name) > longestName {
		return fmt.Errorf("header %q: expected a name (RFC 9110, 5.6.2) of at most %d characters", name, longestName)
	}
	for _, f := range forage.FramingHeaders {
		if Squeeze(f) == Squeeze(name) {
			return fmt.Errorf("header %s says how a request is sent and can't carry a secret", f)
		}
	}
	return nil
}
