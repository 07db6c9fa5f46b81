package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
}

// test names one test: its package and its name, subtests with slashes. Without a name it is the
// package as a whole.
type test struct{ pkg, name string }

func (t test) String() string { return strings.TrimSpace(t.pkg + " " + t.name) }

// results holds how each test ended: "pass", "fail" or "skip".
type results map[test]string

// ended are the tests that ended in that way, in order.
func (r results) ended(how string) (tests []test) {
	for t, ended := range r {
		if ended == how {
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, func(a, b test) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.name, b.name))
	})
	return tests
}

// maxLine bounds one event: a test that prints without a line break can't grow it for ever.
const maxLine = 16 << 20

// readEvents reads events until the end, writes what failed and the closing line of each
// package to out, and returns how each test ended.
func readEvents(in io.Reader, out io.Writer) (results, error) {
	found := results{}
	printed := map[test]*strings.Builder{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // go itself, before it builds
			continue
		}
		key := test{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "output":
			if e.Test == "" && isClosing(e.Output) {
				fmt.Fprint(out, e.Output)
				continue
			}
			if printed[key] == nil {
				printed[key] = &strings.Builder{}
			}
			printed[key].WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Action == "fail" && printed[key] != nil {
				fmt.Fprint(out, printed[key])
			}
			delete(printed, key)
			found[key] = e.Action
			if e.Action == "fail" && e.Test == "" { // what a test said that a time limit or a panic has ended
				for of, said := range printed {
					if of.pkg == e.Package && strings.Contains(said.String(), "panic: ") {
						fmt.Fprint(out, said)
					}
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return found, fmt.Errorf("reading test events: %w", err)
	}
	return found, nil
}

// isClosing reports whether line is what go test says of a package at its end.
func isClosing(line string) bool {
	for _, prefix := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}
