package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// segmented is a log of 20 events that was put aside after every 5, and what it is called.
func segmented(t *testing.T) (l *Log, path string, hosts []string) {
	t.Helper()
	path = newPath(t)
	l = openLog(t, path)
	for i := range 20 {
		hosts = append(hosts, fmt.Sprintf("host-%02d", i))
		if i%5 == 0 {
			l.rotateAt = l.size
		}
		if i == 0 {
			l.rotateAt = segmentSize
		}
		record(t, l, hosts[i])
		l.rotateAt = segmentSize
	}
	return l, path, hosts
}

func files(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		names = append(names, entry.Name())
	}
	return names
}

func TestLogIsPutAside(t *testing.T) {
	l, path, hosts := segmented(t)
	want := []string{"box.audit.1.jsonl", "box.audit.2.jsonl", "box.audit.3.jsonl", "box.audit.jsonl", "box.audit.jsonl.head"}
	if diff := cmp.Diff(want, files(t, path)); diff != "" {
		t.Error(diff)
	}
	check := func(hosts []string) {
		t.Helper()
		if diff := cmp.Diff(hosts, hostsOf(t, path, Filter{})); diff != "" {
			t.Error(diff)
		}
		if n, err := VerifyFile(path); n != len(hosts) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	check(hosts)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, path) // goes on where it was
	if second, err := Open(path, "box"); err == nil {
		second.Close()
		t.Error("a log that was begun anew was opened twice")
	}
	l.rotateAt = 1
	record(t, l, "a")
	record(t, l, "b")
	check(append(hosts, "a", "b"))
	if diff := cmp.Diff("box.audit.5.jsonl", files(t, path)[4]); diff != "" {
		t.Error(diff)
	}
	l.Close()
	if err := os.Truncate(path, 0); err != nil { // as if it had been begun, and nothing written
		t.Fatal(err)
	}
	record(t, openLog(t, path), "c")
	var broken *BrokenError
	if _, err := VerifyFile(path); !errors.As(err, &broken) || broken.Line != 1 || broken.File != "" {
		t.Errorf("an event is missing: %v", err)
	}
}

func TestBegunLogIsContinued(t *testing.T) {
	l, path, hosts := segmented(t)
	l.rotateAt = 0
	l.mu.Lock()
	err := l.rotateLocked()
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nothing is in the log, all in its segments
	record(t, openLog(t, path), "after")
	if diff := cmp.Diff(append(hosts, "after"), hostsOf(t, path, Filter{})); diff != "" {
		t.Error(diff)
	}
	if n, err := VerifyFile(path); n != 21 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A process that died while it put the log aside leaves it in two places, or another that was
// begun.
func TestInterruptedRotation(t *testing.T) {
	l, path, hosts := segmented(t)
	l.Close()
	if err := errors.Join(os.Link(path, SegmentPath(path, 4)), os.WriteFile(nextPath(path), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hosts, hostsOf(t, path, Filter{})); diff != "" {
		t.Errorf("twice: %s", diff)
	}
	if n, err := VerifyFile(path); n != 20 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	l = openLog(t, path)
	l.rotateAt = 1
	record(t, l, "after")
	if diff := cmp.Diff(append(hosts, "after"), hostsOf(t, path, Filter{})); diff != "" {
		t.Error(diff)
	}
	if n, err := VerifyFile(path); n != 21 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := os.Lstat(nextPath(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what was begun is still there")
	}
}

func TestVerifyFindsTamperingInSegments(t *testing.T) {
	tests := []struct {
		name   string
		tamper func(t *testing.T, path string)
		file   string
		line   int
	}{
		{"the first is missing", func(t *testing.T, path string) { remove(t, path, 1) }, "box.audit.1.jsonl", 0},
		{"one is missing", func(t *testing.T, path string) { remove(t, path, 2) }, "box.audit.2.jsonl", 0},
		{"the last is missing", func(t *testing.T, path string) { remove(t, path, 3) }, "", 1},
		{"renumbered", func(t *testing.T, path string) {
			remove(t, path, 2)
			if err := os.Rename(SegmentPath(path, 3), SegmentPath(path, 2)); err != nil {
				t.Fatal(err)
			}
		}, "box.audit.2.jsonl", 1},
		{"swapped", func(t *testing.T, path string) {
			one, two := SegmentPath(path, 1), SegmentPath(path, 2)
			if err := errors.Join(os.Rename(one, one+"x"), os.Rename(two, one), os.Rename(one+"x", two)); err != nil {
				t.Fatal(err)
			}
		}, "box.audit.1.jsonl", 1},
		{"changed", func(t *testing.T, path string) { replace(t, SegmentPath(path, 2), "host-07", "host-77") }, "box.audit.2.jsonl", 3},
		{"cut", func(t *testing.T, path string) {
			text, _ := os.ReadFile(SegmentPath(path, 2))
			if err := os.Truncate(SegmentPath(path, 2), int64(len(text)-20)); err != nil {
				t.Fatal(err)
			}
		}, "box.audit.2.jsonl", 5},
		{"a line was added", func(t *testing.T, path string) { appendTo(t, SegmentPath(path, 3), "{}\n") }, "box.audit.3.jsonl", 6},
		{"a further one", func(t *testing.T, path string) {
			if err := os.WriteFile(SegmentPath(path, 4), []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "box.audit.4.jsonl", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, path, _ := segmented(t)
			tt.tamper(t, path)
			_, err := VerifyFile(path)
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.File != tt.file || broken.Line != tt.line {
				t.Errorf("%v, want %s, line %d", err, tt.file, tt.line)
			}
			if err != nil && !strings.Contains(err.Error(), tt.file) {
				t.Error(err)
			}
		})
	}
}

func remove(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.Remove(SegmentPath(path, n)); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, path, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Segments count against the limit, also those of former processes.
func TestFullLogWithSegments(t *testing.T) {
	l, path, _ := segmented(t)
	l.Close()
	l = openLog(t, path)
	var used int64
	for _, p := range []string{path, SegmentPath(path, 1), SegmentPath(path, 2), SegmentPath(path, 3)} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		used += info.Size()
	}
	l.limit = used + 10
	if err := l.Record(Event{Kind: Connect, Host: "b"}); err == nil {
		t.Error("a full log took an event")
	}
	l.rotateAt = 1 // putting it aside makes no room
	if err := l.Record(Event{Kind: Connect, Host: "b"}); err == nil {
		t.Error("a full log took an event")
	}
	l.limit = maxSize
	record(t, l, "c")
	if n, err := VerifyFile(path); n != 21 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A log that can't be put aside goes on where it is.
func TestRotationFails(t *testing.T) {
	l, path, hosts := segmented(t)
	if err := os.Mkdir(nextPath(path), 0o700); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, "") // it is there
	if err := os.WriteFile(filepath.Join(nextPath(path), "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.rotateAt = 1
	record(t, l, "a", "b")
	if diff := cmp.Diff(append(hosts, "a", "b"), hostsOf(t, path, Filter{})); diff != "" {
		t.Error(diff)
	}
	if n, err := VerifyFile(path); n != 22 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A follower sees each event once, however often the log is put aside in between.
func TestFollowAcrossSegments(t *testing.T) {
	l, path, hosts := segmented(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 300 {
		hosts = append(hosts, fmt.Sprint("more-", i))
	}
	done := make(chan error, 1)
	var got []string
	go func() {
		done <- Follow(ctx, path, Filter{}, func(e Event) error {
			if got = append(got, e.Host); len(got) == len(hosts) {
				cancel()
			}
			return nil
		})
	}()
	for i, host := range hosts[20:] {
		l.rotateAt = segmentSize
		if i%3 == 0 {
			l.rotateAt = 1
		}
		record(t, l, host)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(hosts, got); diff != "" {
		t.Error(diff)
	}
	if n, err := VerifyFile(path); n != len(hosts) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// What something inside makes happen fills a log slowly; what people do is not held up.
func TestFlood(t *testing.T) {
	l := openLog(t, newPath(t))
	at := time.Unix(1_700_000_000, 0)
	var slept time.Duration
	l.now, l.sleep = func() time.Time { return at }, func(d time.Duration) { slept += d; at = at.Add(d) }
	l.pace.SetBurstAt(at, 10_000)
	l.pace.ReserveN(at, 0)
	start := at
	for l.size < 2<<20 {
		if err := l.Record(Event{Kind: HTTP, Verdict: "allow", Host: "flood.test", Path: "/" + strings.Repeat("x", 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	if took, least := at.Sub(start), time.Duration(l.size-11_000)*time.Second/pacePerSecond; took < least {
		t.Errorf("%d bytes took %v, less than %v", l.size, took, least)
	}
	slept = 0
	for _, e := range []Event{{Kind: Lifecycle}, {Kind: Exec}, {Kind: Grant}, {Kind: Connect, Verdict: "deny"}} {
		if err := l.Record(e); err != nil || slept > 0 {
			t.Errorf("%s: held up for %v, %v", e.Kind, slept, err)
		}
	}
	l.pace.ReserveN(at, 10_000)
	l.pace.ReserveN(at, 10_000)
	l.pace.SetLimitAt(at, 1)
	if err := l.Record(Event{Kind: DNS, Verdict: "deny", Monitored: true}); err != nil || slept != maxPause {
		t.Errorf("held up for %v, %v", slept, err)
	}
}

// Nothing is dropped under load, and who verifies meanwhile sees a whole log.
func TestConcurrentRecordsAndRotation(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	l.rotateAt = 20_000
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 250 {
				if err := l.Record(Event{Kind: HTTP, Verdict: "allow", Host: fmt.Sprintf("%d-%d", i, n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		if _, err := VerifyFile(path); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if n, err := VerifyFile(path); n != 2000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	seen := map[string]bool{}
	for _, host := range hostsOf(t, path, Filter{}) {
		seen[host] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d different events", len(seen))
	}
}
