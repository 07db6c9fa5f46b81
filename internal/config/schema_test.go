package config

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"forage/internal/testdir"
)

var update = flag.Bool("update", false, "write schema.json")

// generateSchema describes the raw types. The library is linked into this test alone.
func generateSchema(t *testing.T) string {
	t.Helper()
	r := &jsonschema.Reflector{
		RequiredFromJSONSchemaTags: true,
		Namer: func(t reflect.Type) string {
			return strings.TrimPrefix(t.Name(), "raw")
		},
	}
	r.CommentMap = comments(t)
	s := r.Reflect(rawFile{})
	s.ID = ""
	s.Title = "Firefly Forage configuration"
	data, err := json.MarshalIndent(s, "", "  ")
	testdir.Must(t, err)
	return string(data) + "\n"
}

// comments are the comments of the raw types and their fields, as the library
// wants them; it doesn't read those of unexported types itself.
func comments(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for file, pkg := range map[string]string{"raw.go": "forage/internal/config.", "../../network.go": "forage.", "../../forage.go": "forage."} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		testdir.Must(t, err)
		for _, decl := range parsed.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			spec := gen.Specs[0].(*ast.TypeSpec)
			_, about, _ := strings.Cut(gen.Doc.Text(), " is ")
			found[pkg+spec.Name.Name] = strings.Join(strings.Fields(about), " ")
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					if len(field.Names) > 0 {
						found[pkg+spec.Name.Name+"."+field.Names[0].Name] = strings.Join(strings.Fields(field.Doc.Text()+field.Comment.Text()), " ")
					}
				}
			}
		}
	}
	return found
}

func TestSchemaIsFresh(t *testing.T) {
	want := generateSchema(t)
	if *update {
		testdir.Must(t, os.WriteFile("schema.json", []byte(want), 0o644))
		return
	}
	testdir.Same(t, "schema.json is old: run `go generate ./internal/config`", want, Schema())
}
