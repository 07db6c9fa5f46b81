// Command testrun runs one suite of `go test -json` for CI and judges it by more than
// its exit status: a test that CI must run and that was skipped is a failure, and
// so is a process that outlives the suite. It prints what failed and go test's
// closing lines.
//
//	testrun -suite root -must .ci/must-run -- go test -json ./...
//
// It knows nothing about what is tested.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// leftoverGrace is how long processes that the suite left may take to end by
// themselves, before they count as left behind.
const leftoverGrace = 5 * time.Second

func main() {
	suite := flag.String("suite", "", "`name` of the suite, as in the list of tests that must run")
	must := flag.String("must", "", "`file` with the list of tests that must run")
	flag.Parse()
	if err := run(*suite, *must, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "testrun: %s suite: %v\n", *suite, err)
		os.Exit(1)
	}
}

func run(suite, mustFile string, argv []string, out io.Writer) error {
	if len(argv) == 0 {
		return errors.New("no command to run")
	}
	list, err := os.Open(mustFile)
	if err != nil {
		return fmt.Errorf("opening the list of tests that must run: %w", err)
	}
	defer list.Close()
	rows, err := parseMust(list, suite)
	if err != nil {
		return fmt.Errorf("reading %s: %w", mustFile, err)
	}
	// What the suite leaves behind becomes our child, whoever started it.
	if err := becomeSubreaper(); err != nil {
		return err
	}
	results, err := runSuite(argv, out)
	return errors.Join(err, checkMust(rows, results), checkLeftovers(leftoverGrace))
}

// runSuite runs argv and reads the events that it prints.
func runSuite(argv []string, out io.Writer) (results, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	results, readErr := readEvents(stdout, out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, stdout) // so that the suite can end
	}
	return results, errors.Join(readErr, cmd.Wait())
}
