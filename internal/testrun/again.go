package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// mostAgain is how many packages that failed are run again: more than that are no accident.
	mostAgain = 2
	// timesAgain is how often each of their tests must pass then.
	timesAgain = 2
)

// again runs each package that failed in a suite once more, whole and alone. What passes twice then
// had failed by chance: it is printed as unsteady, and found holds its second end. argv is the
// command of the suite; the packages are its last arguments, and begin with "./".
func again(argv []string, found results, out io.Writer) error {
	failed := found.ended("fail")
	packages := slices.DeleteFunc(slices.Clone(failed), func(t test) bool { return t.name != "" })
	if len(packages) == 0 || len(packages) > mostAgain {
		return fmt.Errorf("%d packages failed: %w", len(packages), testsFailed)
	}
	for len(argv) > 0 && strings.HasPrefix(argv[len(argv)-1], "./") {
		argv = argv[:len(argv)-1]
	}
	var errs []error
	for _, p := range packages {
		fmt.Fprintf(out, "again: %s\n", p.pkg)
		second, err := runSuite(slices.Concat(argv, []string{fmt.Sprint("-count=", timesAgain), p.pkg}), out)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, again: %w", p.pkg, err))
			continue
		}
		maps.Copy(found, second)
	}
	for _, t := range failed {
		if found[t] == "pass" {
			fmt.Fprintf(out, "unsteady: %s failed, and passed %d times when it was run again\n", t, timesAgain)
		} else {
			errs = append(errs, fmt.Errorf("%s: %s", t, found[t]))
		}
	}
	return errors.Join(errs...)
}
