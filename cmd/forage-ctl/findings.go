package main

import (
	"fmt"
	"slices"
	"strconv"

	"forage/internal/sandbox/work"
	"forage/internal/term"
)

// maxFindings is how many findings status names; -o json has all of them.
const maxFindings = 25

// printAutoruns shows what host tools would execute, the worst first.
func printAutoruns(a *app, name string, found []work.Finding) error {
	if len(found) == 0 {
		return nil
	}
	fmt.Fprintf(a.out, "\nNew or changed since the sandbox was made, and executed by tools of the host:\n")
	table := term.NewTable("", "PATH", "WHY")
	for _, h := range found[:min(len(found), maxFindings)] {
		mark := ""
		if h.Immediate {
			mark = "!"
		}
		file := h.Path
		if h.Part != "" {
			file = h.Part + ": " + file
		}
		table.Row(mark, file, h.Why)
	}
	if err := table.Write(a.out); err != nil {
		return err
	}
	if more := len(found) - maxFindings; more > 0 {
		fmt.Fprintf(a.out, "and %d more: -o json has all\n", more)
	}
	if slices.ContainsFunc(found, func(h work.Finding) bool { return h.Immediate }) {
		fmt.Fprintf(a.out, "'forage-ctl quarantine %s' moves aside what is marked with !\n", name)
	} else {
		fmt.Fprintf(a.out, "'forage-ctl quarantine %s --all' moves it aside\n", name)
	}
	return nil
}

// findingCount is the number of findings in a column.
func findingCount(n int) string {
	switch {
	case n < 0:
		return "?"
	case n == 0:
		return "-"
	default:
		return strconv.Itoa(n)
	}
}
