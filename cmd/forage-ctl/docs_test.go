package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// docsDir is where the pages are, from this package; scripts find a copy beside testdata.
const docsDir = "../.."

// block is a fenced block of a page.
type block struct {
	kind  string // what stands behind the fence: sh, console, toml
	lines []string
	at    int // line of the fence
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

// TestDocCommandLines: every forage-ctl command of the pages is one that this program takes. The
// lines are taken apart by a shell, in which forage-ctl prints its arguments and nothing else is
// there.
func TestDocCommandLines(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	check(t, os.WriteFile(filepath.Join(bin, "forage-ctl"), []byte("#!/bin/sh\nprintf '%s\\001' \"$@\"\necho\n"), 0o755))
	for _, page := range docPages(t) {
		t.Run(page, func(t *testing.T) {
			found, err := blocks(filepath.Join(docsDir, page))
			check(t, err)
			var script strings.Builder
			for _, b := range found {
				if b.kind != "sh" && b.kind != "console" {
					continue
				}
				for _, line := range b.lines {
					line = strings.TrimSuffix(strings.TrimPrefix(line, "$ "), " &")
					if strings.HasPrefix(line, "forage-ctl ") {
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

// sessionCommand runs what a page shows in console blocks, in their order: lines that begin with
// "$ " are given to a shell, the lines below are what it must print. In those, "..." stands for
// any text, and alone for any number of lines. A comment behind two spaces and "#" is for readers.
// The folder that "cd" goes to is kept. A command that ends with "&" goes on beside the others. OLD=NEW
// puts other ports in the place of those that the page names.
func sessionCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: session PAGE [OLD=NEW...]")
	}
	var ports []string
	for _, arg := range args[1:] {
		old, port, _ := strings.Cut(arg, "=")
		ports = append(ports, old, port)
	}
	found, err := blocks(ts.MkAbs(args[0]))
	ts.Check(err)
	ran, earlier := 0, "exec 2>&1\n"
	for _, b := range found {
		if b.kind != "console" {
			continue
		}
		for i := 0; i < len(b.lines); {
			command, ok := strings.CutPrefix(b.lines[i], "$ ")
			if !ok {
				ts.Fatalf("%s:%d: a line before the first command", args[0], b.at)
			}
			end := i + 1
			for end < len(b.lines) && !strings.HasPrefix(b.lines[end], "$ ") {
				end++
			}
			command = comment.ReplaceAllString(command, "")
			command = strings.NewReplacer(ports...).Replace(command)
			if beside, ok := strings.CutSuffix(command, " &"); ok { // whose output would be waited for
				command = beside + " >/dev/null 2>&1 &"
			}
			err := ts.Exec("sh", "-c", earlier+command)
			if strings.HasPrefix(command, "cd ") {
				earlier += command + "\n"
			}
			got := strings.TrimRight(ts.ReadFile("stdout"), "\n")
			if err != nil && end == i+1 { // else the page shows what a failure prints
				ts.Fatalf("%s: $ %s: %v\nprinted:\n%s", args[0], command, err, got)
			}
			if want := b.lines[i+1 : end]; len(want) > 0 && !pattern(want).MatchString(got) {
				ts.Fatalf("%s: $ %s\nprinted:\n%s\nthe page says:\n%s", args[0], command, got, strings.Join(want, "\n"))
			}
			i, ran = end, ran+1
		}
	}
	if ran == 0 {
		ts.Fatalf("%s has no console block", args[0])
	}
}

var comment = regexp.MustCompile(`\s{2,}#.*$`)

// pattern matches output that looks like the lines of a page. How wide columns are is left open.
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
				words[k] = regexp.QuoteMeta(word)
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
