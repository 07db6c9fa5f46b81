package config

import (
	"reflect"
	"strings"
)

// bind fills the raw value that into points to from a table, strictly: a key
// that it has no field for, a value of another type and null are problems.
func bind(n *node, into any, p *problems) {
	b := binder{p}
	b.value(n, reflect.ValueOf(into).Elem(), nil)
}

type binder struct{ problems *problems }

func (b binder) value(n *node, v reflect.Value, path []any) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		b.value(n, v.Elem(), path)
	case reflect.Struct:
		if b.expect(n, kindTable, path) {
			b.table(n, v, path)
		}
	case reflect.Map:
		if b.expect(n, kindTable, path) {
			b.entries(n, v, path)
		}
	case reflect.Slice:
		if b.expect(n, kindList, path) {
			b.items(n, v, path)
		}
	case reflect.String:
		if b.expect(n, kindString, path) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if b.expect(n, kindBool, path) {
			v.SetBool(n.truth)
		}
	case reflect.Int64:
		if b.expect(n, kindInt, path) {
			v.SetInt(n.number)
		}
	case reflect.Interface: // what another program's settings hold
		if value := n.plain(b.problems, path); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	case reflect.Float64:
		switch n.kind {
		case kindInt:
			v.SetFloat(float64(n.number))
		case kindFloat:
			v.SetFloat(n.real)
		default:
			b.expect(n, kindNumber, path)
		}
	default:
		panic("config: no key has the type " + v.Type().String())
	}
}

func (b binder) expect(n *node, want kind, path []any) bool {
	if n.kind == want {
		return true
	}
	b.problems.add(n.pos, "%s: expected %s, found %s", pathText(path), want, n.kind)
	return false
}

func (b binder) table(n *node, v reflect.Value, path []any) {
	known := fieldsOf(v.Type())
	for _, key := range n.keys {
		child, at := n.fields[key], append(path[:len(path):len(path)], key)
		index, ok := known.index[key]
		if !ok {
			b.problems.add(child.key, "%s: unknown key%s", pathText(at), didYouMean(key, known.names))
			continue
		}
		b.value(child, v.Field(index), at)
	}
}

func (b binder) entries(n *node, v reflect.Value, path []any) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range n.keys {
		entry := reflect.New(v.Type().Elem()).Elem()
		b.value(n.fields[key], entry, append(path[:len(path):len(path)], key))
		v.SetMapIndex(reflect.ValueOf(key), entry)
	}
}

func (b binder) items(n *node, v reflect.Value, path []any) {
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		b.value(item, v.Index(i), append(path[:len(path):len(path)], i))
	}
}

// fields are the keys that a raw type has.
type fields struct {
	names []string
	index map[string]int
}

func fieldsOf(t reflect.Type) fields {
	f := fields{index: make(map[string]int, t.NumField())}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		f.names = append(f.names, name)
		f.index[name] = i
	}
	return f
}

// keysOf are the keys of a raw struct.
func keysOf(raw any) map[string]bool {
	keys := map[string]bool{}
	for _, name := range fieldsOf(reflect.TypeOf(raw)).names {
		keys[name] = true
	}
	return keys
}
