package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
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
	samples := make([]sample, len(contestants))
	for turn := range n + 1 {
		for i, c := range contestants {
			if samples[i].err != nil {
				continue
			}
			took, err := c(ctx)
			if err != nil {
				samples[i].err = err
				continue
			}
			if turn > 0 {
				samples[i].times = append(samples[i].times, took)
			}
		}
	}
	return samples
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
	cmd.WaitDelay = 5 * time.Second
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
