package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"forage/internal/testdir"
)

// switchedOn is the reference file with every setting that it shows.
func switchedOn() string {
	return regexp.MustCompile(`(?m)^#([a-z"\[])`).ReplaceAllString(reference, "$1")
}

func loadText(t *testing.T, text string) *Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.toml")
	testdir.Must(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := Load(Env{UID: 1000, Home: "/home/user", SystemDir: dir + "/none", File: path})
	testdir.Must(t, err)
	return c
}

func TestReferenceChangesNothing(t *testing.T) {
	got, want := loadText(t, reference), loadText(t, "")
	gotText, err := got.TOML()
	testdir.Must(t, err)
	wantText, err := want.TOML()
	testdir.Must(t, err)
	testdir.Same(t, "the reference file is not all comments (-default +reference)", string(wantText), string(gotText))
}

// TestReferenceShowsEveryKey: of every table, the raw types being the list.
func TestReferenceShowsEveryKey(t *testing.T) {
	loadText(t, switchedOn())
	var p problems
	said, _ := read(file{"reference.toml", []byte(switchedOn())}, &p)
	testdir.Must(t, p.err())
	eachKey(t, reflect.TypeFor[rawFile](), []any{said.values}, "")
}

// eachKey looks for every key that a type has in any of the values of that type.
func eachKey(t *testing.T, typ reflect.Type, values []any, path string) {
	switch typ.Kind() {
	case reflect.Pointer:
		eachKey(t, typ.Elem(), values, path)
	case reflect.Map:
		var entries []any
		for _, value := range values {
			entries = slices.AppendSeq(entries, maps.Values(value.(map[string]any)))
		}
		eachKey(t, typ.Elem(), entries, path+".*")
	case reflect.Slice:
		var items []any
		for _, value := range values {
			items = append(items, value.([]any)...)
		}
		eachKey(t, typ.Elem(), items, path+"[]")
	case reflect.Struct:
		for field := range typ.Fields() {
			var found []any
			for _, value := range values {
				if v, ok := value.(map[string]any)[keyOf(field)]; ok {
					found = append(found, v)
				}
			}
			if len(found) == 0 {
				t.Errorf("the reference file doesn't show %s.%s", path, keyOf(field))
			} else {
				eachKey(t, field.Type, found, path+"."+keyOf(field))
			}
		}
	}
}
