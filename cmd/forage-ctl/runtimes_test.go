package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	runtimes "forage/internal/runtime"
	"forage/internal/supervisor"
)

//go:generate go test . -run TestRuntimesPage -update

var update = flag.Bool("update", false, "write the table of docs/reference/runtimes.md")

// TestRuntimesPage: the page's table is what the runtimes say of themselves.
func TestRuntimesPage(t *testing.T) {
	const page = "../../docs/reference/runtimes.md"
	const begin, end = "<!-- Written by `go generate ./cmd/forage-ctl`. -->\n\n", "\n<!-- Until here. -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the table")
	}
	want := before + begin + runtimesTable(t) + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not what the runtimes say: go generate ./cmd/forage-ctl", page)
	}
}

func runtimesTable(t *testing.T) string {
	var infos []runtimes.Info
	head, line, roots := "| |", "|---|", "| root filesystems |"
	known := supervisor.Runtimes{Dir: t.TempDir()}
	for _, name := range known.Names() {
		rt, err := known.New(name)
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, rt.Info())
		head, line = head+" "+name+" |", line+"---|"
		roots += " " + rt.Info().Capabilities.Kinds() + " |"
	}
	lines := []string{head, line, roots}
	for i, row := range (runtimes.Capabilities{}).Rows() {
		cells := fmt.Sprintf("| %s |", row.What)
		for _, info := range infos {
			cells += map[bool]string{true: " yes |", false: " no |"}[info.Capabilities.Rows()[i].Can]
		}
		lines = append(lines, cells)
	}
	return strings.Join(lines, "\n") + "\n"
}
