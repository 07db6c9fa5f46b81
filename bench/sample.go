package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// sample is the times of one contestant, or why there are none.
type sample struct {
	times []time.Duration
	err   error
}

func (s sample) median() time.Duration {
	return s.percentile(50)
}

// percentile is the time that p percent of the runs stay below.
func (s sample) percentile(p int) time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.times))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// String is the median in a unit that is easy to read, and the quickest.
func (s sample) String() string {
	if s.err != nil || len(s.times) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (min %s)", short(s.median()), short(slices.Min(s.times)))
}

func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + short(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
	default:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
}

// contestant does one thing once and says how long that took.
type contestant func(context.Context) (time.Duration, error)

// interleave lets every contestant run n times, turn and turn about after one unmeasured
// turn, so that what else the machine does falls on all alike. One that fails is out.
func interleave(ctx context.Context, n int, contestants ...contestant) []sample {
	return takeTurns(ctx, 1, n, contestants)
}

// once is interleave for what takes minutes: every contestant runs one time.
func once(ctx context.Context, contestants ...contestant) []sample {
	return takeTurns(ctx, 0, 1, contestants)
}

// takeTurns ends early with ctx: what was measured until then counts.
func takeTurns(ctx context.Context, unmeasured, n int, contestants []contestant) []sample {
	samples := make([]sample, len(contestants))
	for turn := range unmeasured + n {
		for i, c := range contestants {
			if samples[i].err != nil {
				continue
			}
			took, err := c(ctx)
			switch {
			case ctx.Err() != nil:
				return interrupted(ctx, samples)
			case err != nil:
				samples[i].err = err
			case turn >= unmeasured:
				samples[i].times = append(samples[i].times, took)
			}
		}
	}
	return samples
}

// interrupted gives those that have no time yet the reason.
func interrupted(ctx context.Context, samples []sample) []sample {
	for i, s := range samples {
		if len(s.times) == 0 && s.err == nil {
			samples[i].err = context.Cause(ctx)
		}
	}
	return samples
}

// after is a contestant that something is made ready for, unmeasured.
func after(c contestant, prepare func(context.Context) error) contestant {
	return func(ctx context.Context) (time.Duration, error) {
		if err := prepare(ctx); err != nil {
			return 0, err
		}
		return c(ctx)
	}
}

// undone is a contestant whose work is taken back after each turn, unmeasured. What was removed
// before is off the disk, too, when it begins: a disk may take long over discarding what many files
// had.
func undone(c contestant, undo func(context.Context) error) contestant {
	return func(ctx context.Context) (time.Duration, error) {
		syscall.Sync()
		took, err := c(ctx)
		if err == nil {
			err = undo(ctx)
		}
		return took, err
	}
}

// absent is a contestant that can't run here.
func absent(why string, args ...any) contestant {
	return func(context.Context) (time.Duration, error) { return 0, fmt.Errorf(why, args...) }
}

// command is how a program is run.
type command struct {
	argv []string
	env  []string
	dir  string
}

// times is a contestant: from before the program is started until it has ended.
func (c command) times(ctx context.Context) (time.Duration, error) {
	cmd := c.cmd(ctx)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	return took, c.explain(err, stderr.Bytes())
}

// output runs the program and gives what it printed.
func (c command) output(ctx context.Context) ([]byte, error) {
	cmd := c.cmd(ctx)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return out, c.explain(err, stderr.Bytes())
}

func (c command) cmd(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Dir = c.env, c.dir
	// Sessions share the processor evenly (sched(7), "The autogroup feature"), and a sandbox has
	// its own. An interrupt from the terminal is ours alone; what runs then is asked to take back
	// what it has made.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	return cmd
}

func (c command) explain(err error, stderr []byte) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed", c.argv[0])
	}
	return fmt.Errorf("%s: %w: %s", c.argv[0], err, bytes.TrimSpace(stderr))
}
