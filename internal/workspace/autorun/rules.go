package autorun

import (
	_ "embed"
	"strings"
	"sync"
)

// rule is what a name means to tools of the host.
type rule struct {
	kind Kind
	why  string
}

//go:embed names.txt
var namesText string

// table is names.txt: rules by names, or by folder/name.
type table struct {
	files, folders map[string]rule
	parents        map[string]bool // of names with a folder
	patterns       []pattern
}

// pattern is a rule for files by the beginning and the end of their names.
type pattern struct {
	prefix, suffix string
	rule
}

// names are read when they are first needed: most commands of the program never do.
var names = sync.OnceValue(func() *table {
	t := &table{files: make(map[string]rule), folders: make(map[string]rule), parents: make(map[string]bool)}
	var r rule
	for line := range strings.Lines(namesText) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			kind, why, _ := strings.Cut(line, ": ")
			r = rule{Kind(kind), why}
		default:
			for _, name := range strings.Fields(line) {
				t.add(name, r)
			}
		}
	}
	return t
})

func (t *table) add(name string, r rule) {
	if parent, _, ok := strings.Cut(strings.TrimSuffix(name, "/"), "/"); ok {
		t.parents[parent] = true
	}
	if prefix, suffix, ok := strings.Cut(name, "*"); ok {
		t.patterns = append(t.patterns, pattern{prefix, suffix, r})
	} else if folder, ok := strings.CutSuffix(name, "/"); ok {
		t.folders[folder] = r
	} else {
		t.files[name] = r
	}
}

// lookup finds the rule for one name in a folder called parent ("" at the root).
func lookup(parent, name string, folder bool) (rule, bool) {
	parent, name = strings.ToLower(parent), strings.ToLower(name)
	t := names()
	at := t.files
	if folder {
		at = t.folders
	}
	if r, ok := at[name]; ok {
		return r, true
	}
	if t.parents[parent] {
		if r, ok := at[parent+"/"+name]; ok {
			return r, true
		}
	}
	if folder {
		return rule{}, false
	}
	for _, p := range t.patterns {
		if len(name) >= len(p.prefix)+len(p.suffix) && strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix) {
			return p.rule, true
		}
	}
	return rule{}, false
}

// dependencies are folders that hold what other programs have made, in numbers: of what is in one only
// what is met on the way counts by itself. The rest makes one finding for the folder.
var dependencies = set(`node_modules bower_components vendor target dist build out _build .venv venv .tox .nox site-packages __pycache__
	.eggs .gradle .next .nuxt .cache .terraform .bundle pods dist-newstyle .stack-work`)

func set(names string) map[string]bool {
	found := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		found[name] = true
	}
	return found
}

const whyDependencies = "it holds programs and build files that are new or changed; package managers, test runners and scripts execute them"
