package autorun_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/workspace/autorun"
)

// plant makes a tree of "path", "path/" (a folder), "path -> target" or "path +x".
func plant(t *testing.T, root string, files ...string) {
	t.Helper()
	for _, file := range files {
		file, target, link := strings.Cut(file, " -> ")
		file, executable := strings.CutSuffix(file, " +x")
		at := filepath.Join(root, file)
		dir := filepath.Dir(at)
		if strings.HasSuffix(file, "/") {
			dir = at
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == at {
			continue
		}
		mode := os.FileMode(0o644)
		if executable {
			mode = 0o755
		}
		var err error
		if link {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(file), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func scan(t *testing.T, root string, before autorun.Baseline, hooks ...string) []string {
	t.Helper()
	findings, err := autorun.Scan(t.Context(), root, before, hooks...)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, f := range findings {
		if f.Why == "" {
			t.Errorf("%s: no reason is given", f.Path)
		}
		got = append(got, fmt.Sprintf("%s %s", f.Kind, f.Path))
	}
	return got
}

func TestScanFinds(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"ordinary files", []string{"main.go", "README.md", "docs/a.txt", ".editorconfig", "src/workflows/x.yml"}, []string{}},
		{"a nested repository", []string{"lib/.git/config", "lib/.git/hooks/x +x"}, []string{"repository lib/.git"}},
		{"a pointer", []string{"lib/.git"}, []string{"repository lib/.git"}},
		{"a link called .git", []string{"lib/.git -> ../evil"}, []string{"repository lib/.git"}},
		{"a bare repository", []string{"data/HEAD", "data/objects/", "data/refs/", "data/config"}, []string{"repository data/HEAD"}},
		{"a bare one at the root", []string{"HEAD", "objects/", "refs/"}, []string{"repository HEAD"}},
		{"a bare one with its objects elsewhere", []string{"data/HEAD", "data/commondir"}, []string{"repository data/HEAD"}},
		{"what a bare one hides", []string{"data/HEAD", "data/objects/", "data/refs/", "data/objects/.envrc"}, []string{"repository data/HEAD", "shell data/objects/.envrc"}},
		{"names that are folded", []string{".GIT/config", "a/git~1/config", "b/.g\u200cit/config", "c/.git. /config", "d/.git::$INDEX_ALLOCATION/config"},
			[]string{"repository .GIT", "repository a/git~1", "repository b/.g\u200cit", "repository c/.git. ", "repository d/.git::$INDEX_ALLOCATION"}},
		{"other systems", []string{"a/.jj/repo/config.toml", "b/.hg/hgrc"}, []string{"repository a/.jj", "repository b/.hg"}},
		{"on cd", []string{".envrc", "sub/.ENVRC", ".mise.toml", ".config/mise/config.toml", ".direnv/x/rc", ".envrc.d/x"},
			[]string{"shell .config/mise/config.toml", "shell .direnv/x/rc", "shell .envrc", "shell .mise.toml", "shell sub/.ENVRC"}},
		{"a link in its place", []string{".envrc -> x", ".vscode -> x"}, []string{"shell .envrc", "editor .vscode"}},
		{"a file in the place of a folder", []string{".husky"}, []string{"hook .husky"}},
		{"editors and agents", []string{".vscode/tasks.json", "a/.exrc", ".claude/settings.json", ".mcp.json", "x.code-workspace"},
			[]string{"editor .vscode/tasks.json", "editor a/.exrc", "editor x.code-workspace", "agent .claude/settings.json", "agent .mcp.json"}},
		{"hooks", []string{".husky/_/pre-commit +x", ".pre-commit-config.yaml", "x/.gitattributes"},
			[]string{"hook .husky/_/pre-commit", "hook .pre-commit-config.yaml", "hook x/.gitattributes"}},
		{"builds", []string{"Makefile", "a/package.json", "a/build.rs", ".cargo/config.toml", "eslint.config.mjs", ".eslintrc.cjs", "x/conftest.py", "gradle/wrapper/gradle-wrapper.jar"},
			[]string{"build .cargo/config.toml", "build .eslintrc.cjs", "build Makefile", "build a/build.rs", "build a/package.json", "build eslint.config.mjs", "build gradle/wrapper/gradle-wrapper.jar", "build x/conftest.py"}},
		{"workflows", []string{".github/workflows/x.yml", ".github/CODEOWNERS"}, []string{"ci .github/workflows/x.yml"}},
		{"instructions", []string{"CLAUDE.md", "a/AGENTS.md", ".github/copilot-instructions.md", ".clinerules/x.md"},
			[]string{"instructions .clinerules/x.md", "instructions .github/copilot-instructions.md", "instructions CLAUDE.md", "instructions a/AGENTS.md"}},
		{"programs", []string{"run.sh +x", "data"}, []string{"executable run.sh"}},
		{"links", []string{"in -> docs/x", "up -> ../x", "abs -> /etc/passwd", "a/b -> ../../x", "a/c -> ../docs", "x/ok -> ../docs/../docs"},
			[]string{"link a/b", "link abs", "link up"}},
		{"links that lead out through links", []string{"d/e/", "s -> d/e", "self -> .", "out -> self/self/../../etc"}, []string{"link out"}},
		{"dependencies are one", []string{"node_modules/a/package.json", "node_modules/.bin/x +x", "node_modules/a/.vscode/tasks.json"}, []string{"build node_modules"}},
		{"but for what is met on the way", []string{"node_modules/a/.git/config", "vendor/x/.envrc", "target/y/HEAD", "target/y/objects/", "target/y/refs/"},
			[]string{"repository node_modules/a/.git", "repository target/y/HEAD", "shell vendor/x/.envrc"}},
		{"odd names", []string{"a\nb/.envrc", "-x/.envrc", "\x1b[31m/.git"}, []string{"repository \x1b[31m/.git", "shell -x/.envrc", "shell a\nb/.envrc"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, test.files...)
			if diff := cmp.Diff(test.want, scan(t, root, nil)); diff != "" {
				t.Error(diff)
			}
			before, err := autorun.Take(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{}, scan(t, root, before)); diff != "" {
				t.Errorf("with itself as baseline: %s", diff)
			}
		})
	}
}

func TestScanShowsChanges(t *testing.T) {
	write := func(file, text string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(t *testing.T, root string)
		want   []string
	}{
		{"nothing", func(*testing.T, string) {}, []string{}},
		{"the same again", write("Makefile", "Makefile"), []string{}},
		{"a content of the same length", write("Makefile", "Makefilf"), []string{"build Makefile"}},
		{"configuration of a nested repository", write("lib/.git/config", "[core]\n\tfsmonitor = x"), []string{"repository lib/.git"}},
		{"a branch of a nested repository", write("lib/.git/config", "lib/.git/config[branch \"x\"]\n\tmerge = y\n"), []string{"repository lib/.git"}}, // the header is not on a line of its own
		{"a hook of a nested repository", write("lib/.git/hooks/pre-commit", "x"), []string{"repository lib/.git"}},
		{"a submodule's repository", write("lib/.git/modules/a/b/config", "x"), []string{"repository lib/.git"}},
		{"a commit in it", write("lib/.git/HEAD", "x"), []string{}},
		{"a program", write("run.sh", "evil"), []string{"executable run.sh"}},
		{"a program in dependencies", write("node_modules/.bin/x", "evil"), []string{"build node_modules"}},
		{"with its time put back", func(t *testing.T, root string) {
			at := filepath.Join(root, "Makefile")
			info, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			write("Makefile", "Makefilf")(t, root)
			if err := os.Chtimes(at, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, []string{"build Makefile"}},
		{"a link's target", func(t *testing.T, root string) {
			os.Remove(filepath.Join(root, "up"))
			plant(t, root, "up -> ../y")
		}, []string{"link up"}},
		{"a file behind a link", write("conf/envrc", "evil"), []string{"shell .envrc"}},
		{"a file in a folder behind a link", write("conf/claude/settings.json", "evil"), []string{"agent conf/claude/settings.json"}},
		{"a new file in a folder behind a link", write("conf/claude/more.json", "evil"), []string{"agent conf/claude/more.json"}},
		{"a link that becomes one out", func(t *testing.T, root string) {
			os.RemoveAll(filepath.Join(root, "d"))
			plant(t, root, "d -> ..")
		}, []string{"link d", "link through"}},
		{"a folder that can't be opened", func(t *testing.T, root string) {
			if os.Getuid() == 0 {
				t.Skip("root opens every folder")
			}
			plant(t, root, "shut/.envrc")
			at := filepath.Join(root, "shut")
			if err := os.Chmod(at, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(at, 0o755) })
		}, []string{"unseen shut"}},
		{"a FIFO", func(t *testing.T, root string) {
			os.Remove(filepath.Join(root, "Makefile"))
			if err := unix.Mkfifo(filepath.Join(root, "Makefile"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, "Makefile", "lib/.git/config", "lib/.git/HEAD", "lib/.git/hooks/a", "lib/.git/modules/a/b/HEAD", "lib/.git/modules/a/b/config",
				"run.sh +x", "node_modules/.bin/x +x", "up -> ../x", "d/x", "through -> d/x", "conf/envrc", "conf/claude/settings.json", ".envrc -> conf/envrc", ".claude -> conf/claude", "loop -> loop", ".vscode -> .")
			before, err := autorun.Take(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			test.change(t, root)
			if diff := cmp.Diff(test.want, scan(t, root, before)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanHooksPath(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "tools/clean.py", "vendor/watch", "tools/link -> x", "tools/hooks/pre-commit", "tools/hooks/lib/x", "tools/x", "hooks/y")
	want := []string{"hook tools/clean.py", "hook tools/hooks/lib/x", "hook tools/hooks/pre-commit", "hook tools/link", "hook vendor/watch"}
	if diff := cmp.Diff(want, scan(t, root, nil, "tools/hooks", "tools/clean.py", "tools/link", "vendor/watch", "tools/absent", "../hooks", "/hooks")); diff != "" {
		t.Error(diff)
	}
}

// A tree that is in the way of whoever looks through it is looked through as far as that goes, and the rest is a finding.
func TestScanIsBounded(t *testing.T) {
	root := t.TempDir()
	plant(t, root, strings.Repeat("d/", 110)+".envrc")
	if diff := cmp.Diff([]string{"unseen " + strings.Repeat("d/", 100) + "d"}, scan(t, root, nil)); diff != "" {
		t.Error(diff)
	}
	root = t.TempDir()
	for i := range 300 {
		plant(t, root, fmt.Sprintf("%03d/Makefile", i))
	}
	plant(t, root, "zzz/.git/config")
	findings, err := autorun.Scan(t.Context(), root, nil)
	if err != nil || len(findings) != 201 || findings[0].Path != "zzz/.git" || !strings.Contains(findings[1].Why, "100 more") {
		t.Fatalf("%d findings, first %+v, error %v", len(findings), findings[:2], err)
	}
	for i, f := range findings[1:] { // in whichever order they were found
		if want := fmt.Sprintf("%03d/Makefile", i); f.Path != want {
			t.Fatalf("%s is named in the place of %s", f.Path, want)
		}
	}
}

// git itself writes sections for branches: what executes nothing is no finding.
func TestBranchesAreNoFinding(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "lib/.git/HEAD")
	config := filepath.Join(root, "lib/.git/config")
	for _, test := range []struct {
		text string
		want []string
	}{
		{"[core]\n\tbare = false\n[branch \"x\"]\n\tmerge = refs/heads/x\n", []string{}},
		{"[core]\n\tbare = false\n[branch \"x\"]\n\tmerge = x\n[core]\n\tfsmonitor = x\n", []string{"repository lib/.git"}},
	} {
		if err := os.WriteFile(config, []byte("[core]\n\tbare = false\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := autorun.Take(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, scan(t, root, before)); diff != "" {
			t.Errorf("%q: %s", test.text, diff)
		}
	}
}

// Worktrees come and go on the host, those of other sandboxes too.
func TestWorktreesAreNoFinding(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "lib/.git/HEAD")
	before, err := autorun.Take(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	plant(t, root, "lib/.git/worktrees/x/HEAD", "lib/.git/worktrees/x/gitdir", "lib/.git/worktrees/x/commondir")
	common := filepath.Join(root, "lib/.git/worktrees/x/commondir")
	for _, test := range []struct {
		common, more string
		want         []string
	}{
		{"../..\n", "", []string{}},
		{"../../../..\n", "", []string{"repository lib/.git"}},
		{"../..\n", "lib/.git/worktrees/x/config.worktree", []string{"repository lib/.git"}},
	} {
		if err := os.WriteFile(common, []byte(test.common), 0o644); err != nil {
			t.Fatal(err)
		}
		if test.more != "" {
			plant(t, root, test.more)
		}
		if diff := cmp.Diff(test.want, scan(t, root, before)); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
	}
}

// TestScanIdentity: a file with setuid or setgid is shown by itself, wherever it is and whatever it is called.
func TestScanIdentity(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "was +x", "is +x", "data", "Makefile", "node_modules/x/tool +x", ".envrc")
	chmod := func(name string, mode uint32) {
		if err := unix.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod("was", 0o4755)
	before, err := autorun.Take(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if got := scan(t, root, before); len(got) > 0 {
		t.Errorf("before: %q", got)
	}
	chmod("is", 0o4755)
	chmod("data", 0o2644)
	chmod("Makefile", 0o2755)
	chmod("node_modules/x/tool", 0o4755)
	chmod(".envrc", 0o4755)
	want := []string{"shell .envrc", "executable Makefile", "executable data", "executable is", "executable node_modules/x/tool"}
	if d := cmp.Diff(want, scan(t, root, before)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
