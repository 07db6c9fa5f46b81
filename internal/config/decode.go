package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// position is where something is written: a file, and an offset into its text.
// The zero value is what no file says.
type position struct {
	file   file
	offset int
}

// line is from 1; 0 is the file as a whole.
func (p position) line() int {
	if p.file.data == nil {
		return 0
	}
	return bytes.Count(p.file.data[:p.offset], []byte("\n")) + 1
}

// column is from 1, in bytes.
func (p position) column() int {
	return p.offset - bytes.LastIndexByte(p.file.data[:p.offset], '\n')
}

// document is what files say, TOML and JSON alike, and where they say it: by path, such as
// templates.claude.rules[0].host. Keys have the place of the key, items of lists their own.
type document struct {
	values map[string]any
	at     map[string]position
}

// place is where the value at a path is, or the last one on the way there that is written.
func (d document) place(path string) position {
	for {
		at, ok := d.at[path]
		if ok || path == "" {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// join is the path of a key of the table at path.
func join(path, key string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if key == "" || len(key) > 80 || strings.Trim(key, plain) != "" {
		key = fmt.Sprintf("%.80q", key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func item(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index) }

// read parses a file by its name: JSON if it says so, else TOML.
func read(f file, p *problems) (document, bool) {
	d := document{at: map[string]position{"": {f, 0}}}
	before := len(p.list)
	if strings.HasSuffix(f.path, ".json") {
		d.readJSON(f, p)
	} else {
		d.readTOML(f, p)
	}
	return d, len(p.list) == before
}

// readTOML reads a TOML 1.0 document. The library's decoder judges and reads it; its parser then
// tells where everything is.
func (d *document) readTOML(f file, p *problems) {
	if err := toml.Unmarshal(f.data, &d.values); err != nil {
		wrong := Problem{File: f.path}
		var located *toml.DecodeError
		if errors.As(err, &located) {
			wrong.Line, wrong.Column = located.Position()
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "toml: "), ": strconv.") // what follows is about Go
		wrong.What = "not valid TOML: " + text
		p.list = append(p.list, wrong)
		return
	}
	w := tomlWalk{d, f, map[string]int{}}
	parser := &unstable.Parser{}
	parser.Reset(f.data)
	table := ""
	for parser.NextExpression() {
		switch n := parser.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = w.keys("", n.Key(), n.Kind == unstable.ArrayTable)
		case unstable.KeyValue:
			w.value(w.keys(table, n.Key(), false), n.Value())
		}
	}
}

// tomlWalk notes where a document that is known to be valid has its keys.
type tomlWalk struct {
	*document
	file  file
	items map[string]int // of lists of tables: how many there were
}

// keys goes down a dotted key. With list it ends in a new item of the list with that name.
func (w tomlWalk) keys(path string, key unstable.Iterator, list bool) string {
	for key.Next() {
		path = join(path, string(key.Node().Data))
		at := position{w.file, int(key.Node().Raw.Offset)}
		if _, ok := w.at[path]; !ok {
			w.at[path] = at
		}
		isNew := list && key.IsLast()
		if isNew {
			w.items[path]++
		}
		if n := w.items[path]; n > 0 {
			path = item(path, n-1)
		}
		if isNew {
			w.at[path] = at
		}
	}
	return path
}

func (w tomlWalk) value(path string, n *unstable.Node) {
	children, index := n.Children(), 0
	for n.Kind == unstable.InlineTable && children.Next() {
		pair := children.Node()
		w.value(w.keys(path, pair.Key(), false), pair.Value())
	}
	for ; n.Kind == unstable.Array && children.Next(); index++ {
		child, at := children.Node(), item(path, index)
		if child.Raw.Length > 0 { // lists have no place of their own
			w.at[at] = position{w.file, int(child.Raw.Offset)}
		}
		w.value(at, child)
	}
}

// maxDepth bounds how deep lists and tables nest in JSON; the deepest key is at 6.
const maxDepth = 32

// readJSON reads a JSON document whose top is an object. Unlike encoding/json alone it refuses
// null and keys that are given twice, and notes where everything is.
func (d *document) readJSON(f file, p *problems) {
	r := jsonReader{document: d, file: f, dec: json.NewDecoder(bytes.NewReader(f.data))}
	r.dec.UseNumber()
	top, err := r.value("", maxDepth)
	d.at[""] = position{f, 0}
	var isTable bool
	if d.values, isTable = top.(map[string]any); err == nil && !isTable {
		p.add(position{f, 0}, "expected an object, found %s", kindOf(top))
		return
	}
	if err == nil {
		if _, more := r.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the end of the configuration")
		}
	}
	if err != nil {
		p.add(r.last, "not valid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

type jsonReader struct {
	*document
	file file
	dec  *json.Decoder
	last position // where the last token begins
}

func (r *jsonReader) next() (json.Token, error) {
	start := int(r.dec.InputOffset())
	start += len(r.file.data[start:]) - len(bytes.TrimLeft(r.file.data[start:], " \t\r\n,:"))
	r.last = position{r.file, start}
	token, err := r.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return token, err
}

func (r *jsonReader) value(path string, depth int) (any, error) {
	token, err := r.next()
	if err == nil && depth == 0 {
		err = errors.New("nested too deeply")
	}
	if _, isKey := r.at[path]; !isKey {
		r.at[path] = r.last
	}
	switch token := token.(type) {
	case json.Number:
		if whole, err := token.Int64(); err == nil {
			return whole, nil
		}
		return token.Float64()
	case json.Delim:
		if err != nil {
			return nil, err
		}
		if token == '{' {
			table := map[string]any{}
			for r.dec.More() {
				token, err := r.next()
				if err != nil {
					return nil, err
				}
				key, ok := token.(string)
				if _, twice := table[key]; twice || !ok {
					return nil, fmt.Errorf("the key %.80q is given twice", key)
				}
				at := join(path, key)
				r.at[at] = r.last
				if table[key], err = r.value(at, depth-1); err != nil {
					return nil, err
				}
			}
			_, err := r.next()
			return table, err
		}
		list := []any{}
		for r.dec.More() {
			value, err := r.value(item(path, len(list)), depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = r.next()
		return list, err
	case nil:
		if err == nil {
			err = errors.New("null says nothing: leave the key out")
		}
	}
	return token, err
}

// overlay is over on top of d: tables are merged key by key, everything else is replaced.
func (d document) overlay(over document) document {
	merged := document{values: overlay(d.values, over.values), at: maps.Clone(d.at)}
	maps.DeleteFunc(merged.at, func(path string, _ position) bool { // what is left of lists that were replaced
		list, _, isItem := strings.Cut(path, "[")
		_, replaced := over.at[list]
		return isItem && replaced
	})
	maps.Copy(merged.at, over.at)
	return merged
}

func overlay(under, over map[string]any) map[string]any {
	merged := maps.Clone(under)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range over {
		below, isTable := merged[key].(map[string]any)
		if table, ok := value.(map[string]any); ok && isTable {
			value = overlay(below, table)
		}
		merged[key] = value
	}
	return merged
}

// binder fills raw values from a document, strictly: an unknown key, a value of another type
// and one that its check refuses are problems. Where a text stands for another one, as a path does
// for an absolute one, the document has that afterwards.
type binder struct {
	document
	*problems
	home  string
	known map[reflect.Type]map[string]reflect.StructField // keys of the raw types met so far
}

// bind fills the struct that into points to.
func (b binder) bind(into any) {
	b.known = map[reflect.Type]map[string]reflect.StructField{}
	b.table("", b.values, reflect.ValueOf(into).Elem())
}

// value fills v, and returns what the document says from now on.
func (b binder) value(path string, from any, v reflect.Value, tag reflect.StructTag) any {
	ok := true
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return b.value(path, from, v.Elem(), tag)
	case reflect.Interface: // what another program's settings hold
		if _, err := json.Marshal(from); err != nil || from == nil {
			b.add(b.place(path), "%s: expected what JSON can say, found %s", path, kindOf(from))
			return from
		}
		v.Set(reflect.ValueOf(from))
	case reflect.Struct, reflect.Map:
		var table map[string]any
		if table, ok = from.(map[string]any); ok && v.Kind() == reflect.Struct {
			b.table(path, table, v)
		} else if ok {
			b.entries(path, table, v, tag)
		}
	case reflect.Slice:
		var items []any
		if items, ok = from.([]any); ok {
			v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
			for i := range items {
				items[i] = b.value(item(path, i), items[i], v.Index(i), tag)
			}
		}
	case reflect.String:
		var text string
		if text, ok = from.(string); ok {
			text = b.check(path, tag.Get("check"), text)
			v.SetString(text)
			return text
		}
	case reflect.Bool:
		var truth bool
		truth, ok = from.(bool)
		v.SetBool(truth)
	case reflect.Int, reflect.Int64:
		var number int64
		if number, ok = from.(int64); ok {
			b.check(path, tag.Get("check"), fmt.Sprint(number))
			v.SetInt(number)
		}
	case reflect.Float64:
		if whole, isWhole := from.(int64); isWhole {
			from = float64(whole)
		}
		var number float64
		if number, ok = from.(float64); ok {
			b.check(path, tag.Get("check"), fmt.Sprint(number))
			v.SetFloat(number)
		}
	default:
		panic("config: no key has the type " + v.Type().String())
	}
	if !ok {
		b.add(b.place(path), "%s: expected %s, found %s", path, kinds[v.Kind()], kindOf(from))
	}
	return from
}

func (b binder) table(path string, table map[string]any, v reflect.Value) {
	known := b.known[v.Type()]
	if known == nil {
		known = map[string]reflect.StructField{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			known[keyOf(field)] = field
		}
		b.known[v.Type()] = known
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at := join(path, key)
		if field, ok := known[key]; ok {
			table[key] = b.value(at, table[key], v.FieldByIndex(field.Index), field.Tag)
		} else {
			b.add(b.place(at), "%s: unknown key%s", at, didYouMean(key, slices.Sorted(maps.Keys(known))))
		}
	}
}

// keyOf is the key of a field of a raw type.
func keyOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func (b binder) entries(path string, table map[string]any, v reflect.Value, tag reflect.StructTag) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at, entry := join(path, key), reflect.New(v.Type().Elem()).Elem()
		if names := tag.Get("keys"); names != "" {
			b.check(at, names, key)
		}
		table[key] = b.value(at, table[key], entry, tag)
		v.SetMapIndex(reflect.ValueOf(key), entry)
	}
}

// check asks the check with that name about a text, and returns what it stands for.
func (b binder) check(path, name, text string) string {
	if name == "" {
		return text
	}
	means, err := checks()[name](text, surroundings{filepath.Dir(b.place(path).file.path), b.home})
	if err != nil {
		b.add(b.place(path), "%s: %v", path, err)
		return text
	}
	return means
}

// kinds are what messages call the kinds of value.
var kinds = map[reflect.Kind]string{
	reflect.Struct: "a table", reflect.Map: "a table", reflect.Slice: "a list", reflect.String: "a string",
	reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
}

func kindOf(from any) string {
	switch from.(type) {
	case nil:
		return "null"
	case float64:
		return "a number with a fraction"
	case string, bool, int64, []any, map[string]any:
		return kinds[reflect.TypeOf(from).Kind()]
	}
	return "a date or time"
}
