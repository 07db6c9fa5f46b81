package main

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"forage/internal/term"
	"forage/internal/testdir"
)

// pages calls f with every command that users see.
func pages(t *testing.T, f func(t *testing.T, c *cobra.Command)) {
	root, err := (&app{}).tree([]string{"help"})
	testdir.Must(t, err)
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.HasParent() && !c.Hidden {
			t.Run(commandName(c), func(t *testing.T) { f(t, c) })
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// TestPages holds what every page of help must have.
func TestPages(t *testing.T) {
	pages(t, func(t *testing.T, c *cobra.Command) {
		for number, line := range strings.Split(page(c), "\n") {
			if utf8.RuneCountInString(line) > helpWidth {
				t.Errorf("line %d is %d columns wide: %s", number+1, len(line), line)
			}
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("short text is %q: want one without a full stop", c.Short)
		}
		if c.Example == "" && c.Name() != "help" {
			t.Error("no example")
		}
		if c.Runnable() && c.Name() != "help" && c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
			t.Error("no completion of its arguments: files would be offered")
		}
	})
}

// TestOneCommandIsBuilt: the tree holds only what was asked for, unless all is needed.
func TestOneCommandIsBuilt(t *testing.T) {
	all := len(entries())
	tests := []struct {
		args []string
		want int
	}{
		{[]string{"ps"}, 1},
		{[]string{"--verbose", "--config", "run", "ps", "-o", "json"}, 1},
		{[]string{"--config=x", "run", "--", "ps"}, 1},
		{[]string{}, all},
		{[]string{"--help"}, all},
		{[]string{"help", "ps"}, all},
		{[]string{cobra.ShellCompRequestCmd, "ps", ""}, all},
	}
	for _, test := range tests {
		root, err := (&app{}).tree(test.args)
		if err != nil {
			t.Errorf("%q: %v", test.args, err)
			continue
		}
		if got := len(root.Commands()); got != test.want {
			t.Errorf("%q builds %d commands, want %d", test.args, got, test.want)
		}
	}
}

// TestExamplesParse: what help shows is accepted by the flags that it explains.
func TestExamplesParse(t *testing.T) {
	pages(t, func(t *testing.T, c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			_, args, found := strings.Cut(strings.TrimSpace(line), "forage-ctl "+commandName(c)+" ")
			if !found {
				continue
			}
			for _, end := range []string{" > ", " | ", ")"} { // what follows is the shell's
				args, _, _ = strings.Cut(args, end)
			}
			root, err := (&app{}).tree([]string{"help"})
			testdir.Must(t, err)
			fresh, _, err := root.Find(strings.Fields(commandName(c)))
			testdir.Must(t, err)
			if err := fresh.ParseFlags(strings.Fields(args)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	})
}

// TestShellWords: a shell reads back what was written.
func TestShellWords(t *testing.T) {
	for _, argv := range [][]string{
		{"ssh", "-p", "2200", "agent@127.0.0.1"},
		{"", " ", "a b", "it's", "$HOME", "`id`", "a\nb", "*", "~", "\\", "a;b", "'", "é"},
	} {
		script := `for arg in ` + term.ShellWords(argv) + `; do printf '%s\0' "$arg"; done`
		out, err := exec.Command("sh", "-c", script).Output()
		testdir.Must(t, err)
		if got, want := string(out), strings.Join(argv, "\x00")+"\x00"; got != want {
			t.Errorf("%q came back as %q", want, got)
		}
	}
}
