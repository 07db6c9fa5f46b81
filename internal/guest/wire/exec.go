package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Bounds of an Exec payload. The kernel itself takes no more than 2 MiB of
// arguments and environment by default (execve(2)).
const (
	maxExec    = 4 << 20
	maxStrings = 1 << 16
)

// execVersion is the first byte of a payload.
const execVersion = 1

// Exec asks for a program. Strings are bytes as execve(2) takes them: any
// but NUL, in no particular encoding.
type Exec struct {
	Argv []string // at least one; Argv[0] is looked up on the PATH inside
	Dir  string   // "" is the sandbox's working directory
	Env  []string // "K=V", over the sandbox's own environment
	// Terminal, if set, gives the program a terminal of its own.
	Terminal *Terminal
}

// Terminal describes the terminal to make.
type Terminal struct {
	Term    string // TERM
	Columns uint32
	Rows    uint32
}

// errExec is in the chain of every parse error.
var errExec = errors.New("malformed program request")

// Marshal encodes e:
//
//	uint8   version, 1
//	uint8   1 with a terminal, else 0
//	string  dir
//	strings argv, env           (uint32 count, then that many strings)
//	string  TERM                (these only with a terminal)
//	uint32  columns, rows
//
// where a string is uint32 length and bytes, as in RFC 4251, section 5.
func (e Exec) Marshal() ([]byte, error) {
	b := []byte{execVersion, 0}
	b = appendString(b, e.Dir)
	b = appendStrings(b, e.Argv)
	b = appendStrings(b, e.Env)
	if t := e.Terminal; t != nil {
		b[1] = 1
		b = appendString(b, t.Term)
		b = binary.BigEndian.AppendUint32(b, t.Columns)
		b = binary.BigEndian.AppendUint32(b, t.Rows)
	}
	if len(b) > maxExec {
		return nil, fmt.Errorf("arguments and environment of %d bytes: at most %d can be passed", len(b), maxExec)
	}
	if _, err := ParseExec(b); err != nil {
		return nil, err
	}
	return b, nil
}

// ParseExec decodes and checks what Marshal made.
func ParseExec(b []byte) (Exec, error) {
	if len(b) > maxExec {
		return Exec{}, fmt.Errorf("%w: %d bytes", errExec, len(b))
	}
	p := parser{rest: b}
	version, terminal := p.byte(), p.byte()
	e := Exec{Dir: p.string(), Argv: p.strings(), Env: p.strings()}
	if terminal == 1 {
		e.Terminal = &Terminal{Term: p.string(), Columns: p.uint32(), Rows: p.uint32()}
	}
	switch {
	case p.failed || len(p.rest) != 0:
		return Exec{}, errExec
	case version != execVersion:
		return Exec{}, fmt.Errorf("%w: version %d", errExec, version)
	case terminal > 1:
		return Exec{}, errExec
	}
	return e, e.check()
}

func (e Exec) check() error {
	if len(e.Argv) == 0 || e.Argv[0] == "" {
		return fmt.Errorf("%w: no program", errExec)
	}
	all := [][]string{e.Argv, e.Env, {e.Dir}}
	if e.Terminal != nil {
		all = append(all, []string{e.Terminal.Term})
	}
	for _, list := range all {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return fmt.Errorf("%w: a string with a NUL byte", errExec)
			}
		}
	}
	for _, s := range e.Env {
		if strings.IndexByte(s, '=') < 1 {
			return fmt.Errorf("%w: a variable without a name", errExec)
		}
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// parser takes fields off a payload. After the first field that isn't there
// it has failed, and everything further is zero.
type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) take(n uint32) []byte {
	if p.failed || uint64(n) > uint64(len(p.rest)) {
		p.failed = true
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) uint32() uint32 {
	if b := p.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (p *parser) string() string { return string(p.take(p.uint32())) }

func (p *parser) strings() []string {
	n := p.uint32()
	// Each string takes four bytes at least: nothing is allocated for a count
	// that the payload can't hold.
	if n > maxStrings || uint64(n)*4 > uint64(len(p.rest)) {
		p.failed = true
	}
	if p.failed || n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = p.string()
	}
	return list
}
