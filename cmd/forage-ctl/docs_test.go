package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// docsDir is where the pages are, from this package; scripts find a copy beside testdata.
const docsDir = "../.."

// block is a fenced block of a page.
type block struct {
	kind  string // what stands behind the fence: sh, console, toml
	lines []string
	at    int // line of the fence
}

// commands are the lines that a reader types.
func (b block) commands() []string {
	var found []string
	for _, line := range b.lines {
		command, prompt := strings.CutPrefix(line, "$ ")
		if prompt && b.kind == "console" || b.kind == "sh" && line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, command)
		}
	}
	return found
}

// blocks are the fenced blocks of the page at path.
func blocks(path string) ([]block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found []block
	open := false
	for number, line := range strings.Split(string(text), "\n") {
		kind, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !open:
			found = append(found, block{kind: kind, at: number + 1})
			open = true
		case fence:
			open = false
		case open:
			last := &found[len(found)-1]
			last.lines = append(last.lines, line)
		}
	}
	return found, nil
}

// docPages are the README and all pages of the book but those that the program writes.
func docPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md"}
	err := fs.WalkDir(os.DirFS(docsDir), "docs", func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && path != "docs/reference/cli.md" {
			pages = append(pages, path)
		}
		return err
	})
	check(t, err)
	return pages
}

// inline is a command in the midst of a sentence.
var inline = regexp.MustCompile("[^`]`(forage-ctl [^`]+)`")

// TestDocCommandLines: every forage-ctl command of the pages is one that this program takes, in
// blocks and in sentences. A shell splits the lines: its forage-ctl prints the arguments.
func TestDocCommandLines(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	check(t, os.WriteFile(filepath.Join(bin, "forage-ctl"), []byte("#!/bin/sh\nprintf '%s\\001' \"$@\"\necho\n"), 0o755))
	for _, page := range docPages(t) {
		t.Run(page, func(t *testing.T) {
			found, err := blocks(filepath.Join(docsDir, page))
			check(t, err)
			text, err := os.ReadFile(filepath.Join(docsDir, page))
			check(t, err)
			var script strings.Builder
			for _, span := range inline.FindAllStringSubmatch(string(text), -1) {
				fmt.Fprintln(&script, span[1])
			}
			for _, b := range found {
				for _, line := range b.commands() {
					if line = strings.TrimSuffix(line, " &"); strings.HasPrefix(line, "forage-ctl ") {
						fmt.Fprintln(&script, line)
					}
				}
			}
			shell := exec.Command("/bin/sh")
			shell.Stdin, shell.Dir, shell.Env = strings.NewReader(script.String()), t.TempDir(), []string{"PATH=" + bin}
			out, err := shell.Output()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(out)) {
				args := strings.Split(strings.TrimSuffix(line, "\x01\n"), "\x01")
				if err := parses(args); err != nil {
					t.Errorf("forage-ctl %s: %v", strings.Join(args, " "), err)
				}
			}
		})
	}
}

// parses says why the program would not take args.
func parses(args []string) error {
	args = ourName(args)
	root, err := (&app{}).tree(args)
	if err != nil {
		return err
	}
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if !c.Runnable() || c == root {
		return errors.New("no such command")
	}
	return c.ParseFlags(rest)
}

// notRun are the commands of the pages that no test runs, by their page and beginning. They stand
// in sh blocks. All others stand in console blocks: the scripts run them.
var notRun = []struct{ page, command, why string }{
	{"README.md", "make install", "CI builds and installs once, for all tests"},
	{"README.md", "forage-ctl doctor", "how-to/doctor.md runs it"},
	{"README.md", "go run", "each script runs the same program"},
	{"README.md", "make test", "it is this test"},
	{"docs/tutorial/first-sandbox.md", "git clone", "there is no repository to name"},
	{"docs/tutorial/first-sandbox.md", "cd firefly-forage", "there is no repository to name"},
	{"docs/tutorial/first-sandbox.md", "make install", "CI builds and installs once, for all tests"},
	{"docs/tutorial/first-sandbox.md", "forage-ctl doctor", "how-to/doctor.md runs it"},
	{"docs/tutorial/first-sandbox.md", "forage-ctl run --allow", "needs a server of that name; network.txtar has one"},
	{"docs/how-to/watch.md", "forage-ctl pick", "needs a terminal; pick.txtar has one"},
	{"docs/how-to/containers.md", "podman", "no engine is there"},
	{"docs/how-to/doctor.md", "sudo", "installs a package on the host"},
	{"docs/how-to/doctor.md", "forage-ctl run --runtime bwrap", "bubblewrap is not everywhere; the suites of runtimes have it"},
	{"docs/how-to/doctor.md", "forage-ctl run --runtime oci", "runc and crun are not everywhere; the suites of runtimes have them"},
	{"docs/how-to/doctor.md", "forage-ctl run --runtime podman", "engines are not everywhere; the suites of runtimes have them"},
	{"docs/how-to/doctor.md", "forage-ctl run --runtime docker", "engines are not everywhere; the suites of runtimes have them"},
	{"docs/how-to/images.md", "forage-ctl run --build", "needs an engine that can reach a registry"},
	{"docs/how-to/images.md", "forage-ctl up work --devcontainer", "needs a registry; devcontainer.txtar has what is without one"},
	{"docs/how-to/limits.md", "sudo", "changes the host's systemd"},
	{"docs/how-to/limits.md", "printf", "changes the host's systemd"},
	{"docs/how-to/ports.md", "forage-ctl", "needs two terminals; forward.txtar has them"},
	{"docs/how-to/proxy.md", "curl -x https:", "needs certificates; proxy.txtar has them"},
	{"docs/how-to/gateway.md", "", "needs another machine and a service manager; gateway.txtar stands for both"},
	{"docs/how-to/board.md", "", "needs a browser, another machine and a service manager; internal/web and web.txtar stand for them"},
	{"docs/how-to/git.md", "git push", "needs a forge over TLS; internal/acceptance has one"},
	{"docs/how-to/workspaces.md", "git", "FOLDER is what down has printed; workspace_worktree.txtar follows it"},
	{"docs/how-to/workspaces.md", "cp", "FOLDER is what down has printed; workspace_worktree.txtar follows it"},
	{"docs/how-to/workspaces.md", "echo", "FOLDER is what down has printed; workspace_worktree.txtar follows it"},
	{"docs/how-to/jj.md", "git --git-dir", "REF is what down has printed; workspace_jj.txtar follows it"},
	{"docs/how-to/jj.md", "jj git import", "follows the line before"},
	{"docs/how-to/watch.md", "forage-ctl ssh", "needs a terminal; session.txtar has one"},
	{"docs/how-to/watch.md", "forage-ctl shell", "needs a terminal; session.txtar has one"},
}

// TestDocCommandsRun: each command of the pages is run by a script, or is in notRun with the
// reason.
func TestDocCommandsRun(t *testing.T) {
	t.Parallel()
	scripts := ""
	files, err := filepath.Glob("testdata/script/*.txtar")
	check(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		scripts += string(text)
	}
	used := map[int]bool{}
	for _, page := range docPages(t) {
		found, err := blocks(filepath.Join(docsDir, page))
		check(t, err)
		runs := strings.Contains(scripts, "session $PAGES/"+page)
		for _, b := range found {
			for _, command := range b.commands() {
				row := slices.IndexFunc(notRun, func(r struct{ page, command, why string }) bool {
					return r.page == page && strings.HasPrefix(command, r.command)
				})
				if used[row] = true; row < 0 && (b.kind == "sh" || !runs) {
					t.Errorf("%s:%d: not run, and not in notRun: %s", page, b.at, command)
				}
			}
		}
	}
	for i, r := range notRun {
		if !used[i] {
			t.Errorf("%s no longer has %q", r.page, r.command)
		}
	}
}

// TestDocLines: a line of the pages has at most 120 characters, but in tables and blocks.
func TestDocLines(t *testing.T) {
	t.Parallel()
	for _, page := range append(docPages(t), "CONTRIBUTING.md") {
		text, err := os.ReadFile(filepath.Join(docsDir, page))
		check(t, err)
		inBlock := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				inBlock = !inBlock
			}
			if !inBlock && !strings.HasPrefix(line, "|") && utf8.RuneCountInString(line) > 120 {
				t.Errorf("%s:%d is too long", page, i+1)
			}
		}
	}
}

// sessionCommand runs a page, block by block. A toml block becomes the configuration, behind
// NAME.toml of the script if there is one, and is checked. One that begins with "# .forage.toml" is
// the project's own. In a console block, a shell runs the lines that begin with "$ ", and the lines
// below are what it must print. "..." stands for any text, alone for any number of lines. A command
// that fails must have its error on the page. Comments behind two spaces and "#" are for readers.
// "cd" and "export" hold for the lines after it. A command that ends with "&" goes on beside the
// others. OLD=NEW replaces ports, paths and the like of the page.
func sessionCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: session PAGE [OLD=NEW...]")
	}
	s := session{ts: ts, page: args[0], earlier: "exec 2>&1\n"}
	var pairs []string
	for _, arg := range args[1:] {
		old, value, _ := strings.Cut(arg, "=")
		pairs = append(pairs, old, value)
	}
	s.replace = strings.NewReplacer(pairs...)
	s.before = filepath.Join(ts.Getenv("WORK"), strings.TrimSuffix(filepath.Base(s.page), ".md")+".toml")
	if exists(s.before) {
		s.configure(block{})
	}
	defer s.end()
	found, err := blocks(ts.MkAbs(s.page))
	ts.Check(err)
	for _, b := range found {
		switch b.kind {
		case "console":
			s.console(b)
		case "toml":
			s.configure(b)
		}
	}
}

type session struct {
	ts      *testscript.TestScript
	page    string
	replace *strings.Replacer
	before  string // path of a configuration that goes before those of the page
	earlier string // what the shell is given before each command
	beside  []int  // processes that go on beside the others; orphans, and so ours (PR_SET_CHILD_SUBREAPER)
}

// end ends what goes on, and leaves an empty configuration.
func (s *session) end() {
	for _, pid := range s.beside {
		_ = unix.Kill(pid, unix.SIGTERM) // may have ended
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
	if config := s.ts.Getenv("FORAGE_CONFIG"); config != "" {
		s.ts.Check(os.WriteFile(config, nil, 0o600))
	}
}

func (s *session) configure(b block) {
	text := s.replace.Replace(strings.Join(b.lines, "\n")) + "\n"
	if strings.HasPrefix(text, "# .forage.toml") {
		s.ts.Check(os.WriteFile(s.ts.MkAbs(".forage.toml"), []byte(text), 0o600))
		return
	}
	if exists(s.before) {
		text = s.ts.ReadFile(s.before) + text
	}
	config := filepath.Join(s.ts.Getenv("WORK"), "config.toml")
	s.ts.Check(os.WriteFile(config, []byte(text), 0o600))
	s.ts.Setenv("FORAGE_CONFIG", config)
	if err := s.ts.Exec("forage-ctl", "config", "check"); err != nil {
		s.ts.Fatalf("%s:%d: %v", s.page, b.at, err)
	}
}

func (s *session) console(b block) {
	for i := 0; i < len(b.lines); {
		command, ok := strings.CutPrefix(b.lines[i], "$ ")
		if !ok {
			s.ts.Fatalf("%s:%d: a line before the first command", s.page, b.at)
		}
		end := i + 1
		for end < len(b.lines) && !strings.HasPrefix(b.lines[end], "$ ") {
			end++
		}
		s.run(s.replace.Replace(comment.ReplaceAllString(command, "")), b.lines[i+1:end])
		i = end
	}
}

// run runs a command, which has to print what want says.
func (s *session) run(command string, want []string) {
	beside, ok := strings.CutSuffix(command, " &")
	if ok { // whose output would be waited for
		command = beside + " >/dev/null 2>&1 & echo $!"
	}
	err := s.ts.Exec("sh", "-c", s.earlier+command)
	if ok {
		pid, err := strconv.Atoi(strings.TrimSpace(s.ts.ReadFile("stdout")))
		s.ts.Check(err)
		s.beside = append(s.beside, pid)
		return
	}
	if strings.HasPrefix(command, "cd ") || strings.HasPrefix(command, "export ") {
		s.earlier += command + "\n"
	}
	got := strings.TrimRight(s.ts.ReadFile("stdout"), "\n")
	if err != nil && strings.Trim(strings.Join(want, ""), ".") == "" { // else the page shows what a failure prints
		s.ts.Fatalf("%s: $ %s: %v\nprinted:\n%s", s.page, command, err, got)
	}
	if len(want) > 0 && !pattern(want).MatchString(got) {
		s.ts.Fatalf("%s: $ %s\nprinted:\n%s\nthe page says:\n%s", s.page, command, got, strings.Join(want, "\n"))
	}
}

var comment = regexp.MustCompile(`\s{2,}#.*$`)

// moment is a date, a time, or both, as in the names of snapshots.
var moment = regexp.MustCompile(`^\d{8}\\?-\d{6}$|^\d{4}\\?-\d\d\\?-\d\d$|^\d\d:\d\d:\d\d$`)

// pattern matches output that looks like the lines of a page, at any moment. How wide columns are
// is left open.
func pattern(lines []string) *regexp.Regexp {
	var expression strings.Builder
	expression.WriteString(`^`)
	for i, line := range lines {
		line = comment.ReplaceAllString(line, "")
		if line == "..." {
			expression.WriteString(`(?s:.*)`)
			continue
		}
		if i > 0 {
			expression.WriteString(`\n?[ \t]*`)
		}
		for j, part := range strings.Split(line, "...") {
			if j > 0 {
				expression.WriteString(`.*`)
			}
			words := strings.Fields(part)
			for k, word := range words {
				words[k] = moment.ReplaceAllString(regexp.QuoteMeta(word), `[-:0-9]+`)
			}
			quoted := strings.Join(words, `\s+`)
			if strings.HasPrefix(part, " ") && j > 0 {
				quoted = `\s+` + quoted
			}
			if strings.HasSuffix(part, " ") && len(words) > 0 {
				quoted += `\s+`
			}
			expression.WriteString(quoted)
		}
		expression.WriteString(`[ \t]*`)
	}
	return regexp.MustCompile(expression.String() + `$`)
}
