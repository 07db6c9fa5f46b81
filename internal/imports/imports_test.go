package imports

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// file is one Go file of the module and what it imports.
type file struct {
	path    string // from the module's root, with slashes
	dir     string
	imports []string
}

// isTest reports whether only tests are built with the file.
func (f file) isTest() bool {
	return strings.HasSuffix(f.path, "_test.go") || strings.HasSuffix(path.Base(f.dir), "test")
}

func TestRooms(t *testing.T) {
	ranks := map[string]rank{}
	for _, r := range rooms {
		ranks[r.name] = r.rank
	}
	for _, f := range moduleFiles(t) {
		own := roomOf(f.dir)
		if _, known := ranks[own]; own != "" && !known && testRooms[own] == "" {
			t.Errorf("%s: room %q is not in the table of rooms", f.path, own)
		}
		if f.isTest() {
			continue
		}
		for _, imported := range f.imports {
			dir, ours := strings.CutPrefix(imported, "forage/")
			other := roomOf(dir)
			switch {
			case !ours || other == own:
			case testRooms[other] != "":
				t.Errorf("%s imports %s, which is for tests", f.path, imported)
			case strings.HasPrefix(f.dir, "internal/") && ranks[other] >= ranks[own]:
				t.Errorf("%s (rank %d) imports %s (rank %d): imports go to lower ranks only",
					f.path, ranks[own], imported, ranks[other])
			case dir != "internal/"+other && !mayImport(f.dir, dir):
				t.Errorf("%s imports %s: only cmd and a registry import what is behind a room's interface", f.path, imported)
			}
		}
	}
}

// mayImport reports whether a file in folder dir may import a package that
// is below another room.
func mayImport(dir, imported string) bool {
	if !strings.HasPrefix(dir, "internal/") {
		return true
	}
	for _, row := range implementations {
		if dir == row.importer && strings.HasPrefix(imported, row.imported) {
			return true
		}
	}
	return false
}

func TestOnlyHostexecStartsPrograms(t *testing.T) {
	for _, f := range moduleFiles(t) {
		if slices.Contains(f.imports, "os/exec") && !f.isTest() && starters[f.dir] == "" {
			t.Errorf("%s imports os/exec: host programs are started by internal/hostexec", f.path)
		}
	}
}

// pure are the packages of the standard library that touch the system; the
// nouns must not.
var impure = []string{"os", "net", "net/http", "syscall", "os/exec", "os/user", "io/fs", "log", "log/slog"}

func TestNounsArePure(t *testing.T) {
	for _, f := range moduleFiles(t) {
		if f.dir != "." && roomOf(f.dir) != "policy" || f.isTest() {
			continue
		}
		for _, imported := range f.imports {
			switch {
			case imported == "forage" && f.dir != ".":
			case slices.Contains(impure, imported):
				t.Errorf("%s imports %s: it is data, and touches nothing", f.path, imported)
			case f.dir == "." && strings.Contains(imported, "."), f.dir == "." && strings.HasPrefix(imported, "forage"):
				t.Errorf("%s imports %s: the root package has no dependencies", f.path, imported)
			}
		}
	}
}

func TestConfinedModules(t *testing.T) {
	for _, f := range moduleFiles(t) {
		for _, imported := range f.imports {
			for _, row := range confined {
				if strings.HasPrefix(imported, row.module) && !f.isTest() && !slices.ContainsFunc(strings.Fields(row.where), func(where string) bool {
					return roomOf(f.dir) == roomOf(where) || f.dir == where
				}) {
					t.Errorf("%s imports %s, which only %s does: %s", f.path, imported, row.where, row.why)
				}
			}
		}
	}
}

func TestRowsAreTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rooms {
		if r.why == "" {
			t.Errorf("room %s has no reason", r.name)
		}
		if _, err := os.Stat("../" + r.name); err != nil {
			t.Errorf("room %s is in the table, and not there", r.name)
		}
		if row := fmt.Sprintf("\n| %d |", r.rank); !strings.Contains(lineWith(string(page), row), "`"+r.name+"`") {
			t.Errorf("docs/architecture.md does not have room %s at rank %d", r.name, r.rank)
		}
	}
	for dir, why := range starters {
		if why == "" {
			t.Errorf("%s starts programs for no reason", dir)
		}
	}
}

// lineWith is the line of text that begins with what follows the line break in start.
func lineWith(text, start string) string {
	_, after, _ := strings.Cut(text, start)
	line, _, _ := strings.Cut(after, "\n")
	return line
}

// roomOf is the room that folder dir (from the module's root) belongs to; "" for the root
// package and what is outside internal.
func roomOf(dir string) string {
	below, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

// moduleFiles parses the imports of every Go file of the module.
func moduleFiles(t *testing.T) []file {
	t.Helper()
	const root = "../.."
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the module's root is not where it was: %v", err)
	}
	var files []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() && (base == "testdata" || base == "bin" || strings.HasPrefix(base, ".") && base != "..") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(rel), dir: path.Dir(filepath.ToSlash(rel))}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
