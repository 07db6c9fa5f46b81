package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// row is one line of the list of tests that must run:
//
//	SUITE  PACKAGE  PATTERN  REASON...
//
// At least one test of PACKAGE (below the module) must match PATTERN (a regular
// expression for the whole name), and none that matches, nor a subtest of it, may be skipped.
type row struct {
	pkg     string
	pattern *regexp.Regexp
}

// parseMust reads the rows of one suite. Empty lines and lines that begin with # are left out.
func parseMust(in io.Reader, suite string) ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(in)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 4 {
			return nil, fmt.Errorf("line %d: want a suite, a package, a pattern and a reason", number)
		}
		if fields[0] != suite {
			continue
		}
		pattern, err := regexp.Compile("^(?:" + fields[2] + ")(?:/.*)?$")
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		rows = append(rows, row{pkg: "forage/" + fields[1], pattern: pattern})
	}
	return rows, lines.Err()
}

// checkMust reports each row that has no test, and each of its tests that was skipped.
func checkMust(rows []row, found results) error {
	var errs []error
	for _, r := range rows {
		matched := false
		for t, ended := range found {
			if t.pkg != r.pkg || !r.pattern.MatchString(t.name) {
				continue
			}
			matched = true
			if ended == "skip" {
				errs = append(errs, fmt.Errorf("%s was skipped, and must run here", t))
			}
		}
		if !matched {
			errs = append(errs, fmt.Errorf("%s has no test that matches %s, which must run here", r.pkg, r.pattern))
		}
	}
	return errors.Join(errs...)
}
