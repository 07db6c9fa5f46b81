package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseTrace(t *testing.T) {
	got := parseTrace(strings.Join([]string{
		"init runtime @0.017 ms, 0.5 ms clock, 0 bytes, 0 allocs",
		"init a @0.1 ms, 0.25 ms clock, 1024 bytes, 3 allocs",
		"init b @0.2 ms, 1 ms clock, 2048 bytes, 4 allocs",
		"forage-ctl: something else",
	}, "\n"))
	if got.clock != 1.75 || got.bytes != 3072 || got.packages != 3 {
		t.Errorf("totals %+v", got)
	}
	if got, want := got.dearest(), "b 1.00 ms, runtime 0.50 ms, a 0.25 ms"; got != want {
		t.Errorf("dearest %q, want %q", got, want)
	}
}

func TestInterleave(t *testing.T) {
	var order string
	log := func(name string, fail bool) contestant {
		return func(context.Context) (time.Duration, error) {
			order += name
			if fail {
				return 0, errors.New("no")
			}
			return time.Duration(len(order)), nil
		}
	}
	s := interleave(t.Context(), 3, log("a", false), log("b", true), log("c", false))
	if order != "abcacacac" {
		t.Errorf("order %q", order)
	}
	if len(s[0].times) != 3 || s[1].err == nil || s[0].median() != 6 {
		t.Errorf("samples %+v", s)
	}
}

func TestOnce(t *testing.T) {
	turns := 0
	s := once(t.Context(), undone(
		func(context.Context) (time.Duration, error) { turns++; return time.Second, nil },
		func(context.Context) error { turns--; return nil }))
	if turns != 0 || s[0].err != nil || len(s[0].times) != 1 || s[0].median() != time.Second {
		t.Errorf("%d are left, samples %+v", turns, s)
	}
}

// TestInterrupt: what was measured is printed, what wasn't is not, and nothing more is begun.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	turns := 0
	quick := func(context.Context) (time.Duration, error) { return time.Second, nil }
	stops := func(context.Context) (time.Duration, error) {
		if turns++; turns == 3 {
			cancel()
		}
		return 2 * time.Second, ctx.Err()
	}
	two := func(*bench, context.Context) ([]row, error) {
		s := interleave(ctx, 9, quick, stops)
		late := interleave(ctx, 9, quick)
		return []row{compare("begun", s[0], s[1], noGoal), compare("not begun", late[0], late[0], noGoal)}, context.Cause(ctx)
	}
	var printed strings.Builder
	b := &bench{o: options{only: regexp.MustCompile("one|two|three")}}
	err := b.measure(ctx, &printed, []group{
		{"zero", func(*bench, context.Context) ([]row, error) { panic("it was not asked for") }},
		{"one", func(*bench, context.Context) ([]row, error) {
			return []row{{what: "whole", ours: "1"}}, errors.New("a cup fell")
		}},
		{"two", two},
		{"three", func(*bench, context.Context) ([]row, error) { panic("it was interrupted before") }},
	})
	if !errors.Is(err, context.Canceled) || turns != 3 {
		t.Errorf("%v after %d turns", err, turns)
	}
	_, rows, _ := strings.Cut(printed.String(), "|---|---|---|---|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\nLoad average")
	want := `| whole | 1 |  |  |  |  |
| one |  |  |  |  | not measured: a cup fell |
| begun | 1 s (min 1 s) | 2 s (min 2 s) | 0.5 |  |  |

Interrupted in the group two, whose rows are of fewer runs.
`
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	git := func(stdin io.Reader, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Stdin = dir, stdin
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	git(nil, "init", "--quiet", "--bare")
	git(history(50, 20), "fast-import", "--quiet")
	for _, tt := range []struct {
		branch         string
		files, commits int
	}{{"main", 50, 20}, {tenth, 5, 21}} {
		files := strings.Count(git(nil, "ls-tree", "-r", tt.branch), "\n")
		commits := strings.TrimSpace(git(nil, "rev-list", "--count", tt.branch))
		if files != tt.files || commits != strconv.Itoa(tt.commits) {
			t.Errorf("%s has %d files and %s commits, want %d and %d", tt.branch, files, commits, tt.files, tt.commits)
		}
	}
}

func TestCompare(t *testing.T) {
	of := func(ms ...int) sample {
		var s sample
		for _, m := range ms {
			s.times = append(s.times, time.Duration(m)*time.Millisecond)
		}
		return s
	}
	tests := []struct {
		name string
		got  row
		want row
	}{
		{"met", compare("w", of(1, 9, 2), of(4, 4, 4), atMost(0.5)),
			row{what: "w", ours: "2 ms (min 1 ms)", peer: "4 ms (min 4 ms)", ratio: "0.5", target: "at most 0.5: met"}},
		{"missed", compare("w", of(8), of(4), atMost(0.5)),
			row{what: "w", ours: "8 ms (min 8 ms)", peer: "4 ms (min 4 ms)", ratio: "2", target: "at most 0.5: **missed**"}},
		{"no peer", compare("w", of(8), sample{err: errors.New("not\ninstalled")}, atMost(1)),
			row{what: "w", ours: "8 ms (min 8 ms)", note: "peer: not installed"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got, cmp.AllowUnexported(row{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	b := &bench{o: options{size: 2e9}}
	got := b.throughput("w", of(2000), of(1000), atLeast(0.8))
	want := row{what: "w", ours: "1.00 GB/s", peer: "2.00 GB/s", ratio: "0.5", target: "at least 0.8: **missed**"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("throughput (-want +got):\n%s", diff)
	}
}

func TestServerAndInside(t *testing.T) {
	const size = 3<<20 + 5
	s, err := startServer(size)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	r, err := insideReport([]string{"download", "http://" + s.addr + "/big"})
	if err != nil || r.Bytes != size || len(r.Nanos) != 1 {
		t.Errorf("download: %+v, %v", r, err)
	}
	for _, kind := range []string{"connect", "keep"} {
		if r, err := insideReport([]string{kind, "http://" + s.addr + "/small", "7"}); err != nil || len(r.Nanos) != 7 {
			t.Errorf("%s: %+v, %v", kind, r, err)
		}
	}
	resp, err := http.Get("http://" + s.addr + "/small")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || len(raw) != 200 {
		t.Errorf("small: %d bytes, %v", len(raw), err)
	}
	if _, err := insideReport([]string{"time", "false"}); err == nil {
		t.Error("a command that fails was timed")
	}
}
