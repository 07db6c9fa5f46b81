package config

import (
	"fmt"
	"slices"
	"strings"
)

// position is where something was read.
type position struct {
	file   string
	line   int // from 1
	column int // from 1, in bytes
}

// source is a file's text, with where its lines begin.
type source struct {
	file  string
	data  []byte
	lines []int // offset of each line
}

func newSource(file string, data []byte) source {
	s := source{file: file, data: data, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// position is where the byte at offset is.
func (s source) position(offset int) position {
	line, found := slices.BinarySearch(s.lines, offset)
	if found {
		line++
	}
	return position{s.file, line, offset - s.lines[line-1] + 1}
}

// kind is what a value in a file is. The names are what messages call them.
type kind string

const (
	kindTable  kind = "a table"
	kindList   kind = "a list"
	kindString kind = "a string"
	kindInt    kind = "a whole number"
	kindFloat  kind = "a number with a fraction"
	kindNumber kind = "a number" // expected only: kindInt or kindFloat
	kindBool   kind = "true or false"
	kindOther  kind = "a date or time"
	kindNull   kind = "null"
)

// node is one value of a configuration file, TOML and JSON alike, with where
// it was written, so that everything that is wrong can be said with its line.
type node struct {
	kind   kind
	pos    position // of the value
	key    position // of the key that it belongs to, where it has one
	text   string   // kindString
	number int64    // kindInt
	real   float64  // kindFloat; not a number where it has no finite value
	truth  bool     // kindBool
	keys   []string // kindTable: in the order of the file
	fields map[string]*node
	items  []*node // kindList
}

func newTable(pos position) *node {
	return &node{kind: kindTable, pos: pos, key: pos, fields: map[string]*node{}}
}

// set adds a field to a table, or replaces it.
func (n *node) set(key string, value *node) {
	if _, ok := n.fields[key]; !ok {
		n.keys = append(n.keys, key)
	}
	n.fields[key] = value
}

// at returns the value at a path of keys (string) and indexes (int), or the
// last one on the way there that exists.
func (n *node) at(path ...any) *node {
	for _, step := range path {
		var next *node
		switch step := step.(type) {
		case string:
			next = n.fields[step]
		case int:
			if step < len(n.items) {
				next = n.items[step]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// overlay is over on top of under: tables are merged key by key, everything
// else is replaced. Neither is changed.
func overlay(under, over *node) *node {
	if under == nil {
		return over
	}
	if over == nil {
		return under
	}
	if under.kind != kindTable || over.kind != kindTable {
		return over
	}
	merged := newTable(over.pos)
	merged.key = over.key
	for _, key := range under.keys {
		merged.set(key, under.fields[key])
	}
	for _, key := range over.keys {
		merged.set(key, overlay(under.fields[key], over.fields[key]))
	}
	return merged
}

// pathText is a path as messages show it: templates.claude.rules[0].host.
func pathText(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			if !plainKey(step) {
				step = fmt.Sprintf("%.80q", step)
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

func plainKey(key string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return key != "" && len(key) <= 80 && strings.Trim(key, plain) == ""
}

// plain is a value whose keys this program doesn't know, as encoding/json would read it.
func (n *node) plain(p *problems, path []any) any {
	switch n.kind {
	case kindTable:
		table := make(map[string]any, len(n.keys))
		for _, key := range n.keys {
			table[key] = n.fields[key].plain(p, append(path[:len(path):len(path)], key))
		}
		return table
	case kindList:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.plain(p, append(path[:len(path):len(path)], i))
		}
		return items
	case kindString:
		return n.text
	case kindBool:
		return n.truth
	case kindInt:
		return n.number
	case kindFloat:
		if n.real == n.real { // a number
			return n.real
		}
	}
	p.add(n.pos, "%s: expected what JSON can say, found %s", pathText(path), n.kind)
	return nil
}
