// Command testrun runs one suite of `go test -json` for CI and judges it by more than
// its exit status: a test that CI must run and that was skipped is a failure, and
// so is a process that outlives the suite. It prints what failed and go test's
// closing lines. A failure of one or two packages is looked at again (see again).
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
	"os/signal"
	"syscall"
	"time"
)

// leftoverGrace is how long processes that the suite left may take to end by themselves, before
// they count as left behind: on a slow machine, what is being taken down takes its time.
const leftoverGrace = 2 * time.Minute

func main() {
	suite := flag.String("suite", "", "`name` of the suite, as in the list of tests that must run")
	must := flag.String("must", "", "`file` with the list of tests that must run")
	flag.Parse()
	heedSignals()
	if err := run(*suite, *must, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "testrun: %s suite: %v\n", *suite, err)
		os.Exit(1)
	}
}

// heedSignals gives the suite the signals that CI's caller ignores (nohup(1)): what is ignored
// stays so in every process below, and tests send them.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // handled here, so the default below
		}
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
	// What the suite leaves behind becomes our child.
	if err := becomeSubreaper(); err != nil {
		return err
	}
	return errors.Join(judge(argv, rows, out), checkLeftovers(leftoverGrace))
}

// judge runs the suite, what failed of it once more, and reports what is wrong with how its tests
// ended.
func judge(argv []string, rows []row, out io.Writer) error {
	results, err := runSuite(argv, out)
	if err == testsFailed {
		err = again(argv, results, out)
	}
	printSkipped(results, out)
	return errors.Join(err, checkMust(rows, results))
}

// printSkipped lists the tests that were skipped, so that one more is seen.
func printSkipped(found results, out io.Writer) {
	for _, t := range found.ended("skip") {
		if t.name != "" { // a package without tests
			fmt.Fprintf(out, "skipped: %s\n", t)
		}
	}
}

// runSuite runs argv, reads the events that it prints and reaps all that its
// tests orphan, as init would: a test that waits for an orphan to be gone must see it gone.
func runSuite(argv []string, out io.Writer) (results, error) {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	events, stdout, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer events.Close()
	process, err := os.StartProcess(program, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, stdout, os.Stderr}})
	stdout.Close()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	ended := make(chan error, 1)
	go func() {
		err := reapUntil(process.Pid)
		events.SetReadDeadline(time.Now().Add(leftoverGrace)) // a process that is left may hold its other end
		ended <- err
	}()
	found, err := readEvents(events, out)
	if err != nil {
		_, _ = io.Copy(io.Discard, events) // so that the suite can end
		return found, errors.Join(err, <-ended)
	}
	return found, <-ended
}
