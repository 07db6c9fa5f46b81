package skills

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"forage/internal/hostile"
)

// Bounds on what is read of a project, and on what is said of it.
const (
	maxRead  = 256 << 10 // bytes of one file
	maxNames = 16        // scripts, or targets
)

// Project is what the files of a workspace say of it. Nothing in it is free text of the project's.
type Project struct {
	Languages []string
	Build     []string // commands, in the order in which they are found
	Test      []string
	Make      []string // targets of its Makefile
	Scripts   []string // of its package.json
	Runner    string   // that runs those: npm, pnpm, yarn or bun
	Own       []string // its own files with instructions
	Nix       bool     // it has a flake.nix or shell.nix
}

// maxName is how long what a target or script is called may be: anything longer could be a
// sentence.
const maxName = 32

// isName says whether a target or script may be shown by its name.
func isName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || strings.IndexByte("_.:-", c) < 0) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// makeTargets are the targets of a Makefile that have no variable in them.
func makeTargets(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		targets, rest, ok := strings.Cut(line, ":")
		if !ok || line[0] == '\t' || strings.Contains(targets, "=") || strings.HasPrefix(strings.TrimLeft(rest, ":"), "=") {
			continue
		}
		for _, name := range strings.Fields(targets) {
			if isName(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names[:min(len(names), maxNames)]
}

// kind is a kind of project, known by one file at its top.
type kind struct {
	file, language, build, test string
}

// kinds: one that is found leaves out those behind it of the same language.
var kinds = []kind{
	{"go.mod", "Go", "go build ./...", "go test ./..."},
	{"Cargo.toml", "Rust", "cargo build", "cargo test"},
	{"uv.lock", "Python", "uv sync", "uv run pytest"},
	{"poetry.lock", "Python", "poetry install", "poetry run pytest"},
	{"tox.ini", "Python", "", "tox"},
	{"pyproject.toml", "Python", "python3 -m pip install -e .", "python3 -m pytest"},
	{"setup.py", "Python", "python3 -m pip install -e .", "python3 -m pytest"},
	{"requirements.txt", "Python", "python3 -m pip install -r requirements.txt", "python3 -m pytest"},
	{"mvnw", "Java", "./mvnw package", "./mvnw test"},
	{"pom.xml", "Java", "mvn package", "mvn test"},
	{"gradlew", "Java", "./gradlew build", "./gradlew test"},
	{"build.gradle", "Java", "gradle build", "gradle test"},
	{"build.gradle.kts", "Kotlin", "gradle build", "gradle test"},
	{".rspec", "Ruby", "bundle install", "bundle exec rspec"},
	{"Gemfile", "Ruby", "bundle install", "bundle exec rake test"},
	{"composer.json", "PHP", "composer install", "composer test"},
	{"mix.exs", "Elixir", "mix compile", "mix test"},
	{"build.zig", "Zig", "zig build", "zig build test"},
	{"Package.swift", "Swift", "swift build", "swift test"},
	{"CMakeLists.txt", "C or C++", "cmake -B build && cmake --build build", "ctest --test-dir build"},
	{"deno.json", "TypeScript", "", "deno test"},
	{"tsconfig.json", "TypeScript", "", ""},
}

// ownFiles are where projects have instructions for agents and people.
var ownFiles = []string{"AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md", "CONTRIBUTING.md"}

// runners are what runs the scripts of a package.json, by the file that says so.
var runners = []struct{ file, runner, install string }{
	{"pnpm-lock.yaml", "pnpm", "pnpm install"},
	{"yarn.lock", "yarn", "yarn install"},
	{"bun.lock", "bun", "bun install"},
	{"package-lock.json", "npm", "npm ci"},
	{"package.json", "npm", "npm install"},
}

// Analyse looks at the top of a workspace on the host. The agent may have written all of it: no
// link is followed out of it, nothing but regular files is read, and not much of those. What can't
// be read says nothing.
func Analyse(folder string) Project {
	var p Project
	root, err := os.OpenRoot(folder)
	if err != nil {
		return p
	}
	defer root.Close()
	has := func(name string) bool {
		info, err := root.Stat(name)
		return err == nil && info.Mode().IsRegular()
	}
	for _, kind := range kinds {
		if slices.Contains(p.Languages, kind.language) || !has(kind.file) {
			continue
		}
		p.Languages = append(p.Languages, kind.language)
		p.add(kind.build, kind.test)
	}
	p.node(root, has)
	if text, _, err := hostile.ReadIn(root, "Makefile", maxRead); err == nil {
		p.Make = makeTargets(string(text))
	}
	for _, name := range ownFiles {
		if has(name) {
			p.Own = append(p.Own, name)
		}
	}
	p.Nix = has("flake.nix") || has("shell.nix")
	return p
}

func (p *Project) add(build, test string) {
	if build != "" {
		p.Build = append(p.Build, build)
	}
	if test != "" {
		p.Test = append(p.Test, test)
	}
}

// node adds what a package.json says.
func (p *Project) node(root *os.Root, has func(string) bool) {
	text, _, err := hostile.ReadIn(root, "package.json", maxRead)
	if err != nil {
		return
	}
	if !slices.Contains(p.Languages, "TypeScript") {
		p.Languages = append(p.Languages, "JavaScript")
	}
	var manifest struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	if json.Unmarshal(text, &manifest) != nil {
		return
	}
	for _, r := range runners {
		if has(r.file) {
			p.Runner = r.runner
			p.add(r.install, "")
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(manifest.Scripts)) {
		if isName(name) && len(p.Scripts) < maxNames {
			p.Scripts = append(p.Scripts, name)
		}
	}
	for _, name := range []string{"build", "test"} {
		if _, ok := manifest.Scripts[name]; ok && name == "build" {
			p.add(p.Runner+" run build", "")
		} else if ok {
			p.add("", p.Runner+" test")
		}
	}
}

// Own are the user's own skills: the files *.md of folder, by name. A folder that is not there has
// none.
func Own(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var texts []string
	for _, entry := range entries {
		if path.Ext(entry.Name()) != ".md" {
			continue
		}
		text, err := os.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(string(text)))
	}
	return texts, nil
}
