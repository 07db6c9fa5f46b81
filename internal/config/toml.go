package config

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML reads a TOML 1.0 document. The library's decoder judges whether
// it is one (syntax, keys given twice, tables defined twice); its parser then tells
// where everything is.
func parseTOML(file string, data []byte, p *problems) *node {
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		at := position{file: file}
		var located *toml.DecodeError
		if errors.As(err, &located) {
			at.line, at.column = located.Position()
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "toml: "), ": strconv.") // what follows is about Go
		p.add(at, "not valid TOML: %s", text)
		return nil
	}
	b := tomlBuilder{source: newSource(file, data), root: newTable(position{file, 1, 1})}
	b.table = b.root
	parser := &unstable.Parser{}
	parser.Reset(data)
	for parser.NextExpression() {
		b.expression(parser.Expression())
	}
	if err := parser.Error(); err != nil {
		p.add(position{file: file}, "not valid TOML: %v", err)
		return nil
	}
	return b.root
}

// tomlBuilder makes nodes of a document that is known to be valid.
type tomlBuilder struct {
	source
	root  *node
	table *node // that key-values go to
}

func (b *tomlBuilder) expression(n *unstable.Node) {
	switch n.Kind {
	case unstable.Table:
		b.table = b.open(b.root, n.Key(), false)
	case unstable.ArrayTable:
		b.table = b.open(b.root, n.Key(), true)
	case unstable.KeyValue:
		b.keyValue(b.table, n)
	}
}

// open returns the table with a dotted name, made where it is missing; with
// list, it is a new last item of the list with that name.
func (b *tomlBuilder) open(table *node, key unstable.Iterator, list bool) *node {
	for key.Next() {
		part, name := key.Node(), string(key.Node().Data)
		at := b.position(int(part.Raw.Offset))
		next, ok := table.fields[name]
		switch {
		case list && key.IsLast():
			if !ok {
				next = &node{kind: kindList, pos: at, key: at}
				table.set(name, next)
			}
			next.items = append(next.items, newTable(at))
		case !ok:
			next = newTable(at)
			table.set(name, next)
		}
		if next.kind == kindList {
			next = next.items[len(next.items)-1]
		}
		table = next
	}
	return table
}

func (b *tomlBuilder) keyValue(table *node, n *unstable.Node) {
	key := n.Key()
	for key.Next() {
		part, name := key.Node(), string(key.Node().Data)
		at := b.position(int(part.Raw.Offset))
		if key.IsLast() {
			value := b.value(n.Value(), at)
			value.key = at
			table.set(name, value)
			return
		}
		next, ok := table.fields[name]
		if !ok {
			next = newTable(at)
			table.set(name, next)
		}
		table = next
	}
}

// value makes a node of a value; lists have no position of their own in the
// library's tree and take the one given.
func (b *tomlBuilder) value(n *unstable.Node, at position) *node {
	if n.Raw.Length > 0 {
		at = b.position(int(n.Raw.Offset))
	}
	v := &node{pos: at, key: at}
	switch n.Kind {
	case unstable.String:
		v.kind, v.text = kindString, string(n.Data)
	case unstable.Bool:
		v.kind, v.truth = kindBool, string(n.Data) == "true"
	case unstable.Integer:
		v.kind, v.number = kindInt, tomlInt(string(n.Data))
	case unstable.Float:
		v.kind, v.real = kindFloat, finite(string(n.Data))
	case unstable.Array:
		v.kind = kindList
		for it := n.Children(); it.Next(); {
			v.items = append(v.items, b.value(it.Node(), at))
		}
	case unstable.InlineTable:
		v.kind, v.fields = kindTable, map[string]*node{}
		for it := n.Children(); it.Next(); {
			b.keyValue(v, it.Node())
		}
	default:
		v.kind = kindOther
	}
	return v
}

// finite reads a number with a fraction; what is none, or is too great, is not a number.
func finite(text string) float64 {
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) {
		return math.NaN()
	}
	return f
}

// tomlInt reads an integer of a valid document; one that is out of range has
// been refused before.
func tomlInt(text string) int64 {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return math.MinInt64
	}
	return n
}

// TOML reads another program's settings.
func TOML(text []byte) (map[string]any, error) {
	var table map[string]any
	if err := toml.Unmarshal(text, &table); err != nil {
		return nil, errors.New("it is not valid TOML")
	}
	return table, nil
}
