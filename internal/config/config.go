// Package config turns configuration files into nouns: strictly, so that
// nothing that somebody wrote is silently ignored. It holds the built-in
// templates, merges system, user and project files, and says what they forbid. It decides
// nothing about a sandbox, and reads no environment but what it is given.
package config

import (
	"fmt"

	"forage"
)

// Config is the configuration in force.
type Config struct {
	User            string    // whose identity sandboxes run with when root calls; "" is nobody's
	AuthorizedKeys  []string  // authorized_keys lines, without options
	PortRange       PortRange // of sandboxes' SSH ports
	SSHListen       string    // a literal address
	DefaultTemplate string
	ContainerPrefix string
	Network         forage.NetworkFacts
	// HostSets are the sets of hosts that the files name, without "@"; what begins with "@" in one is the set of that name
	// that the user's tools tell.
	HostSets  map[string][]string
	Secrets   map[string]Secret
	Templates map[string]forage.Template
	// Unsupported lists, by template, the keys that are known and that this
	// version can't enforce: a sandbox of such a template must be refused.
	Unsupported map[string][]KeyUse
	Forbid      Forbid
	Notify      forage.Notify
	Terminal    []string // what programs inside may do to the user's terminal: "clipboard", "title"
	Proxy       *Proxy   // of `forage-ctl proxy`; nil is none
	Files       []string // what was read, in order; later ones go over earlier ones

	raw  rawFile
	tree *node // what the files said, with absolute paths; nil if nothing
}

// PortRange is a range of TCP ports, both ends included.
type PortRange struct{ From, To int }

// Secret declares a credential: exactly one source, and where it may be used.
// It never holds the value.
type Secret struct {
	File    string   // absolute
	Env     string   // variable of the caller's environment
	Command []string // argv whose output it is
	Keyring string   // "service/user"
	Login   forage.LoginKind
	// LoginFile is where that login is, absolute; "" is the agent's own place.
	LoginFile string
	// Preset is what is built in for a service and holds where the rest says nothing;
	// "" is that of the secret's own name, if there is one.
	Preset string
	Hosts  []string
	Place  forage.SecretPlace // "" is the preset's, else a header
	Header string
	Format string // with "{}" for the value; "" is the value alone
	Query  string // parameter, of forage.PlaceQuery
	User   string // of forage.PlaceBasic
}

// KeyUse is a key that a file uses.
type KeyUse struct {
	Key  string // templates.claude.rules
	File string
	Line int
}

func (u KeyUse) String() string { return fmt.Sprintf("%s (%s:%d)", u.Key, u.File, u.Line) }

// defaults is the configuration without any file.
func defaults() *Config {
	return &Config{
		PortRange:       PortRange{2200, 2299},
		SSHListen:       "127.0.0.1",
		DefaultTemplate: "generic",
		ContainerPrefix: "forage-",
		Secrets:         map[string]Secret{},
		Templates:       builtins(),
		Unsupported:     map[string][]KeyUse{},
	}
}

// Load reads the configuration: the system's file and, for an ordinary user,
// the user's own over it. Missing files are fine, everything else that is wrong is an
// *Error (exit status 64). Tables are merged key by key, so that a template
// keeps what a later file doesn't say; every other value, lists included, is replaced.
// What any of the files forbids stays forbidden.
func Load(env Env) (*Config, error) {
	c := defaults()
	c.Forbid = newForbid(env.Home)
	files, err := env.files()
	if err != nil || len(files) == 0 {
		return c, err
	}
	var p problems
	var merged *node
	for _, file := range files {
		tree := read(file, &p)
		if tree == nil {
			continue
		}
		c.Files = append(c.Files, file.path)
		var raw rawFile
		before := len(p.list)
		bind(tree, &raw, &p)
		if len(p.list) == before && raw.Forbid != nil {
			c.Forbid = c.Forbid.And(convertForbid(raw.Forbid, tree.at("forbid"), env.Home, &p))
		}
		merged = overlay(merged, tree)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if merged == nil {
		return c, nil
	}
	c.tree = merged
	bind(merged, &c.raw, &p)
	convert(c, merged, env.Home, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}
