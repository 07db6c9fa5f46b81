package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// switchedOn is the reference file with every setting that it shows.
func switchedOn() string {
	return regexp.MustCompile(`(?m)^#([a-z"\[])`).ReplaceAllString(reference, "$1")
}

func loadText(t *testing.T, text string) *Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Env{UID: 1000, Home: "/home/user", SystemDir: dir + "/none", File: path})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReferenceChangesNothing(t *testing.T) {
	got, want := loadText(t, reference), loadText(t, "")
	gotText, err := got.TOML()
	if err != nil {
		t.Fatal(err)
	}
	wantText, err := want.TOML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(wantText), string(gotText)); diff != "" {
		t.Errorf("the reference file is not all comments (-default +reference):\n%s", diff)
	}
}

// TestReferenceShowsEveryKey: of every table, the raw types being the list.
func TestReferenceShowsEveryKey(t *testing.T) {
	loadText(t, switchedOn())
	var p problems
	root := parseTOML("reference.toml", []byte(switchedOn()), &p)
	if err := p.err(); err != nil {
		t.Fatal(err)
	}
	var missing []string
	eachKey(reflect.TypeFor[rawFile](), []*node{root}, "", &missing)
	if len(missing) > 0 {
		t.Errorf("the reference file doesn't show: %s", strings.Join(missing, ", "))
	}
}

// eachKey looks for every key that a type has in any of the values of that type.
func eachKey(typ reflect.Type, values []*node, path string, missing *[]string) {
	switch typ.Kind() {
	case reflect.Pointer:
		eachKey(typ.Elem(), values, path, missing)
	case reflect.Map:
		var entries []*node
		for _, value := range values {
			for _, key := range value.keys {
				entries = append(entries, value.fields[key])
			}
		}
		eachKey(typ.Elem(), entries, path+".*", missing)
	case reflect.Slice:
		var items []*node
		for _, value := range values {
			items = append(items, value.items...)
		}
		eachKey(typ.Elem(), items, path+"[]", missing)
	case reflect.Struct:
		eachField(typ, values, path, missing)
	}
}

func eachField(typ reflect.Type, values []*node, path string, missing *[]string) {
	for _, name := range fieldsOf(typ).names {
		var found []*node
		for _, value := range values {
			if field := value.fields[name]; field != nil {
				found = append(found, field)
			}
		}
		if len(found) == 0 {
			*missing = append(*missing, path+"."+name)
			continue
		}
		eachKey(typ.Field(fieldsOf(typ).index[name]).Type, found, path+"."+name, missing)
	}
}
