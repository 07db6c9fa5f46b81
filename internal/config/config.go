// Package config turns configuration files into nouns: strictly, so that
// nothing that is written is silently ignored. It holds the built-in
// templates, merges system, user and project files, and says what they forbid. It decides
// nothing about a sandbox, and reads no environment but what it is given.
package config

import (
	"fmt"

	"forage"
)

// Config is the configuration in force.
type Config struct {
	User            string    // whose identity sandboxes run with when root calls; "" is none
	AuthorizedKeys  []string  // authorized_keys lines, without options
	PortRange       PortRange // of sandboxes' SSH ports
	SSHListen       string    // a literal address
	DefaultTemplate string
	RuntimeOrder    []string // what is chosen from where none is named, best first; empty is every runtime
	ContainerPrefix string
	ImagesMax       int64 // bytes on disk that unpacked images may take together
	KeptRunsMax     int64 // bytes on disk that the results of runs may take together
	Network         forage.NetworkFacts
	// HostSets are the sets of hosts that the files name, without "@"; what begins with "@" in one
	// is the set of that name that the user's tools tell.
	HostSets  map[string][]string
	Secrets   map[string]Secret
	Templates map[string]forage.Template
	// Unsupported lists, by template, the keys that are known and that this
	// version can't enforce: a sandbox of such a template must be refused.
	Unsupported map[string][]KeyUse
	Forbid      Forbid
	Notify      forage.Notify
	Proxy       *Proxy   // of `forage-ctl proxy`; nil is none
	Files       []string // what was read, in order; later ones go over earlier ones

	raw  rawFile
	said document // the files over what is built in, with absolute paths
}

// PortRange is a range of TCP ports, both ends included.
type PortRange struct{ From, To int }

// KeyUse is a key that a file uses.
type KeyUse struct {
	Key  string // templates.claude.rules
	File string
	Line int
}

func (u KeyUse) String() string { return fmt.Sprintf("%s (%s:%d)", u.Key, u.File, u.Line) }

// Load reads the configuration: the system's file and, for an ordinary user,
// the user's own over it, both over what is built in. Missing files are fine, everything else that
// is wrong is an *Error (exit status 64). Tables are merged key by key, so that a template
// keeps what a later file doesn't say; every other value, lists included, is replaced.
// What any of the files forbids stays forbidden.
func Load(env Env) (*Config, error) {
	c := &Config{
		Templates: map[string]forage.Template{}, Unsupported: map[string][]KeyUse{},
		Forbid: newForbid(env.Home), said: document{builtins(), map[string]position{}},
	}
	files, err := env.files()
	if err != nil {
		return nil, err
	}
	var p problems
	for _, file := range files {
		c.Files = append(c.Files, file.path)
		said, ok := read(file, &p)
		if !ok {
			continue
		}
		var raw rawFile
		binder{document: said, problems: &p, home: env.Home}.bind(&raw)
		c.Forbid = c.Forbid.And(forbidOf(raw.Forbid, said, env.Home))
		for name := range raw.Templates {
			c.said.values = overlay(map[string]any{"templates": map[string]any{name: newTemplate()}}, c.said.values)
		}
		c.said = c.said.overlay(said)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	binder{document: c.said, problems: &p, home: env.Home}.bind(&c.raw)
	converter{c.said, &p, c}.convert()
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}
