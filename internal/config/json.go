package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth bounds how deep lists and tables nest; the deepest key is at 6.
const maxDepth = 32

// parseJSON reads a JSON document whose top is an object. Unlike encoding/json
// alone it refuses keys that are given twice, and knows where everything is.
func parseJSON(file string, data []byte, p *problems) *node {
	b := jsonBuilder{source: newSource(file, data), dec: json.NewDecoder(bytes.NewReader(data))}
	b.dec.UseNumber()
	root, err := b.value(0)
	if err == nil && root.kind != kindTable {
		p.add(root.pos, "expected an object, found %s", root.kind)
		return nil
	}
	if err == nil {
		if _, more := b.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the end of the configuration")
		}
	}
	if err != nil {
		p.add(b.at, "not valid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		return nil
	}
	return root
}

type jsonBuilder struct {
	source
	dec *json.Decoder
	at  position // where the last token begins
}

// next reads a token and tells where it begins.
func (b *jsonBuilder) next() (json.Token, position, error) {
	start := int(b.dec.InputOffset())
	start += len(b.data[start:]) - len(bytes.TrimLeft(b.data[start:], " \t\r\n,:"))
	b.at = b.position(start)
	token, err := b.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return token, b.at, err
}

func (b *jsonBuilder) value(depth int) (*node, error) {
	token, at, err := b.next()
	if err != nil {
		return nil, err
	}
	n := &node{pos: at, key: at}
	switch token := token.(type) {
	case string:
		n.kind, n.text = kindString, token
	case bool:
		n.kind, n.truth = kindBool, token
	case json.Number:
		n.kind = kindInt
		if n.number, err = token.Int64(); err != nil {
			n.kind, n.real = kindFloat, finite(token.String())
		}
	case nil:
		n.kind = kindNull
	case json.Delim:
		if depth >= maxDepth {
			return nil, errors.New("nested too deeply")
		}
		if token == '[' {
			return n, b.list(n, depth)
		}
		return n, b.object(n, depth)
	}
	return n, nil
}

func (b *jsonBuilder) list(n *node, depth int) error {
	n.kind = kindList
	for b.dec.More() {
		item, err := b.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, _, err := b.next()
	return err
}

func (b *jsonBuilder) object(n *node, depth int) error {
	n.kind, n.fields = kindTable, map[string]*node{}
	for b.dec.More() {
		token, at, err := b.next()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return errors.New("expected a key")
		}
		if _, twice := n.fields[key]; twice {
			return fmt.Errorf("the key %.80q is given twice", key)
		}
		value, err := b.value(depth + 1)
		if err != nil {
			return err
		}
		value.key = at
		n.set(key, value)
	}
	_, _, err := b.next()
	return err
}
