package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"forage"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 4 << 20

// readConfig reads a configuration file as data: git-config(1), "Syntax". A file that is not there is empty.
func readConfig(file string) (map[string][]string, error) {
	text, err := readRegular(file, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string][]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(string(text))
	if err != nil {
		return nil, forage.Errorf(forage.ErrUnsupported, "reading %s: %w", file, err)
	}
	return config, nil
}

// parseConfig reads the text of a configuration file. A key without a value is "true".
func parseConfig(text string) (map[string][]string, error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	p := &configParser{text: text, line: 1, found: make(map[string][]string)}
	for p.at < len(p.text) {
		if err := p.item(); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	return p.found, nil
}

type configParser struct {
	text    string
	at      int
	line    int
	section string // with the dot after it
	found   map[string][]string
}

// next is the next byte, which is passed; 0 at the end.
func (p *configParser) next() byte {
	if p.at >= len(p.text) {
		return 0
	}
	c := p.text[p.at]
	p.at++
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *configParser) peek() byte {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// item reads white space, a comment, the head of a section, or a key with its value.
func (p *configParser) item() error {
	switch c := p.next(); {
	case isSpace(c):
		return nil
	case c == '#' || c == ';':
		p.skipLine()
		return nil
	case c == '[':
		return p.head()
	case isLetter(c):
		p.at--
		return p.entry()
	default:
		return fmt.Errorf("unexpected %q", c)
	}
}

func (p *configParser) skipLine() {
	for c := p.next(); c != 0 && c != '\n'; c = p.next() {
	}
}

func (p *configParser) head() error {
	var name strings.Builder
	for {
		c := p.next()
		switch {
		case c == ']' && name.Len() > 0:
			p.section = strings.ToLower(name.String()) + "."
			return nil
		case isKey(c) || c == '.':
			name.WriteByte(c)
		case (c == ' ' || c == '\t') && name.Len() > 0:
			return p.subsection(strings.ToLower(name.String()))
		default:
			return errors.New("the head of a section is broken")
		}
	}
}

func (p *configParser) subsection(section string) error {
	for p.peek() == ' ' || p.peek() == '\t' {
		p.next()
	}
	if p.next() != '"' {
		return errors.New("a subsection is not in quotes")
	}
	var name strings.Builder
	for {
		c := p.next()
		switch c {
		case 0, '\n':
			return errors.New("a subsection does not end")
		case '"':
			if p.next() != ']' {
				return errors.New("the head of a section is broken")
			}
			p.section = section + "." + name.String() + "."
			return nil
		case '\\':
			if c = p.next(); c == 0 || c == '\n' {
				return errors.New("a subsection does not end")
			}
		}
		name.WriteByte(c)
	}
}

func (p *configParser) entry() error {
	start := p.at
	for isKey(p.peek()) {
		p.next()
	}
	key := p.section + strings.ToLower(p.text[start:p.at])
	for p.peek() == ' ' || p.peek() == '\t' {
		p.next()
	}
	value := "true"
	switch c := p.next(); c {
	case 0, '\n':
	case '=':
		var err error
		if value, err = p.value(); err != nil {
			return err
		}
	case '#', ';':
		p.skipLine()
	default:
		return fmt.Errorf("unexpected %q after a key", c)
	}
	p.found[key] = append(p.found[key], value)
	return nil
}

// value reads up to the end of the line: white space around it doesn't count, but in quotes.
func (p *configParser) value() (string, error) {
	var b strings.Builder
	quoted, kept := false, 0 // of b, this much isn't white space that may be at the end
	for {
		c := p.next()
		switch {
		case c == 0 || c == '\n':
			if quoted {
				return "", errors.New("a quoted value does not end")
			}
			return b.String()[:kept], nil
		case quoted && c != '"' && c != '\\':
			b.WriteByte(c)
			kept = b.Len()
		case isSpace(c):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
		case c == '#' || c == ';':
			p.skipLine()
			return b.String()[:kept], nil
		case c == '"':
			quoted = !quoted
		case c == '\\':
			escaped, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteString(escaped)
			if escaped != "" {
				kept = b.Len()
			}
		default:
			b.WriteByte(c)
			kept = b.Len()
		}
	}
}

func (p *configParser) escape() (string, error) {
	switch c := p.next(); c {
	case '\n':
		return "", nil
	case 't':
		return "\t", nil
	case 'b':
		return "\b", nil
	case 'n':
		return "\n", nil
	case '\\', '"':
		return string(c), nil
	default:
		return "", fmt.Errorf("unknown escape %q", c)
	}
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isKey(c byte) bool    { return isLetter(c) || '0' <= c && c <= '9' || c == '-' }

// loadConfig reads what the repository is configured with: what all working folders share, and, where that
// is switched on, what this one has of its own.
func (r *Repository) loadConfig() error {
	var err error
	if r.Config, err = readConfig(filepath.Join(r.Common, "config")); err != nil {
		return err
	}
	if !r.flag("extensions.worktreeconfig") {
		return nil
	}
	own, err := readConfig(filepath.Join(r.GitDir, "config.worktree"))
	if err != nil {
		return err
	}
	for key, values := range own {
		r.Config[key] = append(r.Config[key], values...)
	}
	return nil
}

// flag is a boolean: git-config(1), "Values".
func (r *Repository) flag(key string) bool {
	switch strings.ToLower(r.last(key)) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}
