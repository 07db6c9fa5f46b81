package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// weight is what the program costs before it does anything, as the guest that is started
// in every sandbox. Without a control channel it ends at once.
func (b *bench) weight(ctx context.Context) ([]row, error) {
	guest := command{argv: []string{b.ctl, "guest"}, env: []string{}, dir: "/"}
	empty := command{argv: []string{b.nothing}, env: []string{}, dir: "/"}
	s := interleave(ctx, 10*b.o.runs, guest.endsBadly, empty.times)
	rows := []row{compare("the guest from exec to its end without a host, and an empty Go program", s[0], s[1], atMost(1.5))}
	ours, err := initTrace(ctx, b.ctl, "guest")
	if err != nil {
		return rows, err
	}
	peer, err := initTrace(ctx, b.nothing)
	if err != nil {
		return rows, err
	}
	return append(rows, row{
		what: "initialising packages (`GODEBUG=inittrace=1`), and an empty Go program", ours: ours.String(), peer: peer.String(),
		ratio: fmt.Sprintf("%.3g", ours.clock/peer.clock), note: "dearest: " + ours.dearest(),
	}), nil
}

// endsBadly is times for a program that is meant to fail.
func (c command) endsBadly(ctx context.Context) (time.Duration, error) {
	cmd := c.cmd(ctx)
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		return took, err
	}
	return took, nil
}

// trace is a total of GODEBUG=inittrace=1 (package runtime, "Environment Variables").
type trace struct {
	clock    float64 // milliseconds
	bytes    int64
	packages int
	names    []string // the dearest, with their times
	most     []float64
}

func (t trace) String() string {
	return fmt.Sprintf("%.2f ms, %d KiB, %d packages", t.clock, t.bytes>>10, t.packages)
}

func (t trace) dearest() string {
	var parts []string
	for i, name := range t.names {
		parts = append(parts, fmt.Sprintf("%s %.2f ms", name, t.most[i]))
	}
	return strings.Join(parts, ", ")
}

// initTrace runs a program several times and keeps its lightest trace: the clock counts
// whatever else ran meanwhile.
func initTrace(ctx context.Context, argv ...string) (trace, error) {
	var best trace
	for range 15 {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = []string{"GODEBUG=inittrace=1"}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			return trace{}, err
		}
		t := parseTrace(stderr.String())
		if t.packages == 0 {
			return trace{}, errors.New("the program printed no trace")
		}
		if best.packages == 0 || t.clock < best.clock {
			best = t
		}
	}
	return best, nil
}

// parseTrace reads lines like "init net/http @1.7 ms, 0.029 ms clock, 4712 bytes, 49 allocs".
func parseTrace(text string) trace {
	var t trace
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != "init" {
			continue
		}
		clock, err1 := strconv.ParseFloat(f[4], 64)
		size, err2 := strconv.ParseInt(f[7], 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		t.clock += clock
		t.bytes += size
		t.packages++
		t.keep(f[1], clock)
	}
	return t
}

// keep remembers the five dearest packages, in order.
func (t *trace) keep(name string, clock float64) {
	at := 0
	for at < len(t.most) && t.most[at] >= clock {
		at++
	}
	t.names = append(t.names[:at], append([]string{name}, t.names[at:]...)...)
	t.most = append(t.most[:at], append([]float64{clock}, t.most[at:]...)...)
	if len(t.names) > 5 {
		t.names, t.most = t.names[:5], t.most[:5]
	}
}
