package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/provider"
)

// places are what secrets.*.inject may say.
var places = [...]forage.SecretPlace{
	forage.PlaceHeader, forage.PlaceBearer, forage.PlaceBasic, forage.PlaceQuery, forage.PlaceReplace, forage.PlaceSigV4,
}

// logins are what secrets.*.login may say.
var logins = [...]forage.LoginKind{forage.LoginClaude, forage.LoginChatGPT}

// secret checks one credential.
func (v converter) secret(name string, raw rawSecret) {
	s := Secret{Command: slices.Clone(raw.Command), Hosts: slices.Clone(raw.Hosts)}
	at := func(path ...any) []any { return append([]any{"secrets", name}, path...) }
	if forage.CheckName(name) != nil {
		v.add(v.root.at("secrets", name).key, "%s: expected a name of 1 to 63 of a-z, 0-9 and -", pathText(at()))
	}
	v.secretSource(&s, raw, at)
	v.each(raw.Hosts, checkSecretHost, at("hosts"))
	if raw.Preset != nil {
		s.Preset = *raw.Preset
		if _, ok := provider.Lookup(s.Preset); !ok {
			v.wrong(at("preset"), "%.80q is not a preset%s", s.Preset, didYouMean(s.Preset, provider.Names()))
		}
	}
	v.secretUse(&s, raw, at)
	v.config.Secrets[name] = s
	if _, own := provider.Lookup(name); len(s.Hosts) > 0 && s.Preset == "" && !own && s.Login == "" && !saysHow(raw) {
		v.wrong(at("hosts"), "expected inject, header, query or user as well: how requests to these hosts carry it")
	}
}

// checkSecretHost takes one host after the other: what a secret may go to is not left to a set.
func checkSecretHost(entry string) error {
	if name, isSet := strings.CutPrefix(entry, "@"); isSet {
		if _, known := provider.Lookup(name); known {
			return fmt.Errorf("%.80q: a secret goes to hosts, not to a set: name them, or leave hosts out and write preset = %q", entry, name)
		}
		return fmt.Errorf("%.80q: a secret goes to hosts, not to a set: name those that take it", entry)
	}
	return checkHost(entry)
}

func saysHow(raw rawSecret) bool {
	return raw.Inject != nil || raw.Header != nil || raw.Query != nil || raw.User != nil
}

// secretSource reads where the value is.
func (v converter) secretSource(s *Secret, raw rawSecret, at func(...any) []any) {
	sources := 0
	if raw.File != nil {
		s.File = v.path(*raw.File, at("file")...)
		sources++
	}
	if raw.Env != nil {
		if s.Env = *raw.Env; !isEnvName(s.Env) {
			v.wrong(at("env"), "%.80q is not a variable's name", s.Env)
		}
		sources++
	}
	if raw.Command != nil {
		if len(raw.Command) == 0 || raw.Command[0] == "" {
			v.wrong(at("command"), "expected a program and its arguments")
		}
		v.each(raw.Command, checkArgument, at("command"))
		sources++
	}
	if raw.Keyring != nil {
		s.Keyring = *raw.Keyring
		v.check(checkKeyring(s.Keyring), at("keyring")...)
		sources++
	}
	if raw.Login != nil {
		if s.Login = forage.LoginKind(*raw.Login); !slices.Contains(logins[:], s.Login) {
			v.wrong(at("login"), "%.80q: expected claude or chatgpt", *raw.Login)
		}
		sources++
	}
	if sources != 1 {
		v.wrong(at(), "expected one of file, env, command, keyring and login, found %d", sources)
	}
	if raw.LoginFile != nil {
		s.LoginFile = v.path(*raw.LoginFile, at("loginFile")...)
		if raw.Login == nil {
			v.wrong(at("loginFile"), "expected login as well: claude or chatgpt")
		}
	}
}

func checkArgument(text string) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("an argument can't hold a zero byte")
	}
	return nil
}

func checkKeyring(text string) error {
	service, user, ok := strings.Cut(text, "/")
	if !ok || service == "" || user == "" || strings.ContainsFunc(text, isControl) {
		return fmt.Errorf("%.80q: expected service/user", text)
	}
	return nil
}

// secretUse reads what part of a request carries the value.
func (v converter) secretUse(s *Secret, raw rawSecret, at func(...any) []any) {
	if raw.Inject != nil {
		if s.Place = forage.SecretPlace(*raw.Inject); !slices.Contains(places[:], s.Place) {
			v.wrong(at("inject"), "%.80q: expected header, bearer, basic, query, placeholder or aws-sigv4", *raw.Inject)
			return
		}
	}
	for _, part := range [...]struct {
		key   string
		raw   *string
		to    *string
		check func(string) error
		place []forage.SecretPlace // that it says something about
	}{
		{"header", raw.Header, &s.Header, checkHeader, []forage.SecretPlace{forage.PlaceHeader, forage.PlaceReplace}},
		{"format", raw.Format, &s.Format, checkFormat, []forage.SecretPlace{forage.PlaceHeader}},
		{"query", raw.Query, &s.Query, checkQuery, []forage.SecretPlace{forage.PlaceQuery}},
		{"user", raw.User, &s.User, checkBasicUser, []forage.SecretPlace{forage.PlaceBasic}},
	} {
		if part.raw == nil {
			continue
		}
		*part.to = *part.raw
		if !v.check(part.check(*part.raw), at(part.key)...) {
			continue
		}
		if s.Place == "" && part.key != "format" {
			s.Place = part.place[0]
		} else if !slices.Contains(part.place, s.Place) {
			v.wrong(at(part.key), "%s is for inject = %q", part.key, part.place[0])
		}
	}
	switch {
	case (s.Place == forage.PlaceHeader || s.Place == forage.PlaceReplace) && raw.Header == nil:
		v.wrong(at("inject"), "expected header as well, the name of a request header")
	case s.Place == forage.PlaceQuery && raw.Query == nil:
		v.wrong(at("inject"), "expected query as well, the name of a parameter")
	}
}

// checkHeader takes the name of a request header, a token (RFC 9110, 5.1).
func checkHeader(name string) error {
	const token = letters + digits + "!#$%&'*+-.^`|~"
	if name == "" || len(name) > 128 || strings.Trim(name, token) != "" {
		return fmt.Errorf("%.80q: expected the name of a request header, such as x-api-key", name)
	}
	if slices.Contains(forage.FramingHeaders[:], strings.ToLower(name)) {
		return fmt.Errorf("%.80q says how a request is sent, and can't carry a secret", name)
	}
	return nil
}

func checkFormat(text string) error {
	if strings.Count(text, "{}") != 1 || strings.ContainsFunc(text, isControl) || len(text) > 1024 {
		return fmt.Errorf(`%.80q: expected text with {} once, in the place of the value, such as "Bearer {}"`, text)
	}
	return nil
}

func checkQuery(name string) error {
	if name == "" || len(name) > 128 || strings.ContainsFunc(name, isControl) {
		return fmt.Errorf("%.80q: expected the name of a parameter, such as key", name)
	}
	return nil
}

// checkBasicUser takes a user of basic authentication (RFC 7617, 2).
func checkBasicUser(name string) error {
	if strings.Contains(name, ":") || strings.ContainsFunc(name, isControl) || len(name) > 256 {
		return fmt.Errorf("%.80q: expected a user's name, without a colon", name)
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// secretName checks the name of a secret that a template uses: one that is
// configured, or that of a preset, which is looked for when a sandbox starts.
func (v converter) secretName(name string, at ...any) {
	if _, ok := v.config.raw.Secrets[name]; ok {
		return
	}
	if _, ok := provider.Lookup(name); ok {
		return
	}
	known := slices.Concat(provider.Names(), slices.Sorted(maps.Keys(v.config.raw.Secrets)))
	slices.Sort(known)
	v.wrong(at, "no secret is called %.80q%s", name, didYouMean(name, slices.Compact(known)))
}
