package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// row is one line of the table. Figures that were not measured are empty; note says why.
type row struct {
	what, ours, peer, ratio, target, note string
}

func (r row) String() string {
	cells := []string{r.what, r.ours, r.peer, r.ratio, r.target, r.note}
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", "\\|")
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// atMost is a goal of a ratio that should be small.
func atMost(goal float64) func(float64) string {
	return func(got float64) string { return verdict(fmt.Sprintf("at most %.3g", goal), got <= goal) }
}

// atLeast is a goal of a ratio that should be large.
func atLeast(goal float64) func(float64) string {
	return func(got float64) string { return verdict(fmt.Sprintf("at least %.3g", goal), got >= goal) }
}

// noGoal is for rows that only inform.
func noGoal(float64) string { return "" }

func verdict(goal string, met bool) string {
	if met {
		return goal + ": met"
	}
	return goal + ": **missed**"
}

// compare makes the row of two times.
func compare(what string, ours, peer sample, goal func(float64) string) row {
	r := row{what: what, ours: ours.String(), peer: peer.String()}
	switch {
	case ours.err != nil:
		r.note = "ours: " + oneLine(ours.err.Error())
	case peer.err != nil:
		r.note = "peer: " + oneLine(peer.err.Error())
	default:
		ratio := float64(ours.median()) / float64(peer.median())
		r.ratio, r.target = fmt.Sprintf("%.3g", ratio), goal(ratio)
	}
	return r
}

// oneLine shortens the text of an error to what fits a cell.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 240 {
		s = s[:240] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

func (b *bench) header(w io.Writer) {
	fmt.Fprintf(w, "Medians of %d runs, turn and turn about; %s, %d processors, as uid %d, %s.\n\n",
		b.o.runs, kernel(), runtime.NumCPU(), os.Geteuid(), time.Now().UTC().Format(time.RFC3339))
	fmt.Fprintln(w, row{"what", "ours", "peer", "ratio", "target", "notes"})
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
}

func (b *bench) footer(w io.Writer) {
	fmt.Fprintf(w, "\nLoad average at the end: %s. `bench/peers.sh` installs the peers that are missing.\n", loadAverage())
}

func kernel() string {
	raw, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(raw))
}

func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(raw))[:3], " ")
}
