package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testdir"
)

func openLog(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path, "box")
	testdir.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func record(t *testing.T, l *Log, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		verdict := "allow"
		if strings.HasPrefix(host, "no") {
			verdict = "deny"
		}
		testdir.Must(t, l.Record(Event{Kind: Connect, Verdict: verdict, Host: host, Port: 443}))
	}
}

func hostsOf(t *testing.T, path string, filter Filter) []string {
	t.Helper()
	var hosts []string
	for e, err := range EventsOf(path, filter) {
		testdir.Must(t, err)
		hosts = append(hosts, e.Host)
	}
	return hosts
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "box.audit.jsonl") }

func TestLogContinuesItsChain(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	record(t, l, "a", "b")
	testdir.Must(t, l.Close())
	l = openLog(t, path)
	record(t, l, "no-c")
	if n, err := VerifyFile(path); n != 3 || err != nil {
		t.Errorf("%d events, %v", n, err)
	}
	testdir.Same(t, "", []string{"a", "b", "no-c"}, hostsOf(t, path, Filter{}))
	testdir.Same(t, "", []string{"no-c"}, hostsOf(t, path, Filter{Denied: true}))
	if got := hostsOf(t, path, Filter{Kind: DNS}); got != nil {
		t.Error(got)
	}
	for _, p := range []string{path, HeadPath(path)} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
}

func TestLogIsHeldByOne(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	if second, err := Open(path, "box"); err == nil {
		second.Close()
		t.Error("a log was opened twice")
	}
	l.Close()
	openLog(t, path)
	if err := l.Record(Event{Kind: Exec}); err == nil {
		t.Error("a closed log took an event")
	}
}

func TestOpenFollowsNoLink(t *testing.T) {
	path := newPath(t)
	target := filepath.Join(t.TempDir(), "target")
	testdir.Must(t, os.Symlink(target, path))
	if _, err := Open(path, "box"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("opened through a link: %v", err)
	}
}

// Whatever text comes from inside, a log stays lines of ASCII JSON that say what was recorded.
func TestHostileText(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	long := strings.Repeat("é", 4000)
	e := Event{Kind: HTTP, Verdict: "deny", Host: "a\nb\r\x00\x1b[31m\u202e\u009b\x7f😀", Method: long, Path: "/\"},{\"seq\":9" + long, Rule: long, Reason: "\xff\xfe" + long,
		Secret: "\x1b[2J" + long, Model: "\"}\n{\"seq\":2,\"verdict\":\"allow\"}" + long}
	testdir.Must(t, l.Record(e))
	record(t, l, "after")
	text, _ := os.ReadFile(path)
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(lines) != 2 || len(lines[0]) > maxLine {
		t.Fatalf("%d lines, the first of %d bytes", len(lines), len(lines[0]))
	}
	for _, b := range lines[0] {
		if b < 0x20 || b >= 0x7f {
			t.Fatalf("byte %#x in the log", b)
		}
	}
	var got Event
	testdir.Must(t, json.Unmarshal(lines[0], &got))
	if got.Host != e.Host || len(got.Path) > maxPath || !strings.HasSuffix(got.Path, "...") || len(got.Method) > maxMethod || got.Sandbox != "box" {
		t.Errorf("%+v", got)
	}
	if n, err := VerifyFile(path); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestVerifyFindsTampering(t *testing.T) {
	path := newPath(t)
	record(t, openLog(t, path), "one", "two", "three", "four", "five")
	intact, err := os.ReadFile(path)
	testdir.Must(t, err)
	lines := func() []string { return strings.SplitAfter(strings.TrimSuffix(string(intact), "\n")+"\n", "\n")[:5] }
	forged := func(i int, old, replacement string) string { // with a hash of its own that is right
		var e Event
		testdir.Must(t, json.Unmarshal([]byte(strings.Replace(lines()[i], old, replacement, 1)), &e))
		line, err := appendLine(nil, &e)
		testdir.Must(t, err)
		return string(line) + "\n"
	}
	tests := []struct {
		name string
		text func(l []string) []string
		line int
	}{
		{"changed", func(l []string) []string { l[2] = strings.Replace(l[2], "three", "THREE", 1); return l }, 3},
		{"one space more", func(l []string) []string { l[2] = strings.Replace(l[2], ",", ", ", 1); return l }, 3},
		{"changed with its hash", func(l []string) []string { l[2] = forged(2, "three", "THREE"); return l }, 4},
		{"last changed with its hash", func(l []string) []string { l[4] = forged(4, "five", "FIVE"); return l }, 5},
		{"first removed", func(l []string) []string { return l[1:] }, 1},
		{"removed", func(l []string) []string { return slices.Delete(l, 2, 3) }, 3},
		{"last removed", func(l []string) []string { return l[:4] }, 5},
		{"all removed", func(l []string) []string { return nil }, 1},
		{"swapped", func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, 2},
		{"repeated", func(l []string) []string { return slices.Insert(l, 2, l[1]) }, 3},
		{"junk between", func(l []string) []string { return slices.Insert(l, 2, "junk\n") }, 3},
		{"empty line between", func(l []string) []string { return slices.Insert(l, 2, "\n") }, 3},
		{"junk after", func(l []string) []string { return append(l, "junk\n") }, 6},
		{"last line cut", func(l []string) []string { l[4] = l[4][:20]; return l }, 5},
		{"last newline cut", func(l []string) []string { l[4] = strings.TrimSuffix(l[4], "\n"); return l }, 5},
		{"two lines in one", func(l []string) []string { l[1] = strings.TrimSuffix(l[1], "\n"); return l }, 2},
		{"a long line", func(l []string) []string { return slices.Insert(l, 1, strings.Repeat("x", 3*maxLine)+"\n") }, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			copied := newPath(t)
			head, _ := os.ReadFile(HeadPath(path))
			testdir.Must(t, errors.Join(os.WriteFile(copied, []byte(strings.Join(tt.text(lines()), "")), 0o600), os.WriteFile(HeadPath(copied), head, 0o600)))
			_, err := VerifyFile(copied)
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Line != tt.line {
				t.Errorf("got %v, want line %d", err, tt.line)
			}
		})
	}
	if n, err := VerifyFile(path); n != 5 || err != nil {
		t.Errorf("intact: %d, %v", n, err)
	}
	testdir.Must(t, os.Remove(HeadPath(path)))
	if _, err := VerifyFile(path); err == nil {
		t.Error("a missing head file is not told")
	}
}

// Half a line that a writer left is told, and cut off when the log goes on. More than that is
// refused.
func TestTornLine(t *testing.T) {
	for name, torn := range map[string]string{
		"half a line":         `{"seq":3,"time":"2026`,
		"zeros after a crash": strings.Repeat("\x00", 5000),
		"much of it":          strings.Repeat("x", 200_000),
		"lines that are none": "junk\nmore junk\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			l := openLog(t, path)
			record(t, l, "a", "b")
			l.Close()
			appendTo(t, path, torn)
			if _, err := VerifyFile(path); err == nil {
				t.Error("verify does not tell of the torn line")
			}
			l, err := Open(path, "box")
			if len(torn) > maxLine || strings.Contains(torn, "\n") {
				if err == nil {
					t.Error("it goes on")
				}
				return
			}
			testdir.Must(t, err)
			defer l.Close()
			record(t, l, "c")
			if n, err := VerifyFile(path); n != 3 || err != nil {
				t.Errorf("after it was continued: %d, %v", n, err)
			}
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	testdir.Must(t, err)
}

// A log that was cut stays broken, however long it is continued.
func TestCutLogStaysBroken(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	record(t, l, "a", "b", "c")
	l.Close()
	text, _ := os.ReadFile(path)
	first := bytes.IndexByte(text, '\n') + 1
	testdir.Must(t, os.Truncate(path, int64(first)))
	record(t, openLog(t, path), "d")
	var broken *BrokenError
	if _, err := VerifyFile(path); !errors.As(err, &broken) || broken.Line != 2 {
		t.Errorf("%v", err)
	}
}

// An event that can't be written is an error, and nothing of it stays.
func TestFullDisk(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	record(t, l, "a")
	l.limit = l.size + 100
	if err := l.Record(Event{Kind: Connect, Host: "b"}); err == nil {
		t.Error("a full log took an event")
	}
	l.limit = maxSize
	intact := l.file
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	testdir.Must(t, err)
	defer full.Close()
	l.file = full
	testdir.Fails(t, "a full disk", syscall.ENOSPC, l.Record(Event{Kind: Connect, Host: "c"}))
	l.file = intact
	head := l.head
	l.head = full
	testdir.Fails(t, "a full disk, for the head", syscall.ENOSPC, l.Record(Event{Kind: Connect, Host: "d"}))
	l.head = head
	record(t, l, "e")
	if n, err := VerifyFile(path); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestFollow(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
	record(t, l, "a", "no-b")
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan string), make(chan error)
	go func() {
		done <- Follow(ctx, path, Filter{Denied: true}, func(e Event) error {
			seen <- e.Host
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case err := <-done:
			t.Fatalf("ended with %v, want %q", err, want)
		case <-time.After(time.Minute):
			t.Fatalf("%q does not arrive", want)
		}
	}
	expect("no-b")
	record(t, l, "c", "no-d")
	expect("no-d")
	// Cut, and begun anew.
	testdir.Must(t, os.Truncate(path, 0))
	l.size, l.last = 0, head{}
	record(t, l, "no-e")
	expect("no-e")
	// Replaced by another file.
	other := newPath(t)
	record(t, openLog(t, other), "no-f")
	testdir.Must(t, os.Rename(other, path))
	expect("no-f")
	// Removed.
	testdir.Must(t, os.Remove(path))
	if err := <-done; err != nil {
		t.Errorf("the log was removed: %v", err)
	}
	// Cancelled, and a failing reader.
	path = newPath(t)
	record(t, openLog(t, path), "no-x")
	go func() {
		done <- Follow(ctx, path, Filter{}, func(e Event) error { seen <- e.Host; return nil })
	}()
	expect("no-x")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("cancelled: %v", err)
	}
	stop := errors.New("enough")
	testdir.Fails(t, "", stop, Follow(t.Context(), path, Filter{}, func(Event) error { return stop }))
	testdir.Fails(t, "an absent log", os.ErrNotExist, Follow(t.Context(), newPath(t), Filter{}, nil))
}

func FuzzVerify(f *testing.F) {
	path := filepath.Join(f.TempDir(), "log")
	l, err := Open(path, "box")
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	l.now = func() time.Time { return time.Unix(1, 0) } // the same in every fuzzing process
	for _, host := range []string{"a", "b", "c"} {
		if err := l.Record(Event{Kind: Connect, Host: host}); err != nil {
			f.Fatal(err)
		}
	}
	text, _ := os.ReadFile(path)
	f.Add(text)
	f.Fuzz(func(t *testing.T, fuzzed []byte) {
		c := chain{}
		if err := c.read(bytes.NewReader(fuzzed)); err == nil && c.events > 0 && !bytes.HasPrefix(text, fuzzed) {
			t.Errorf("%d events of another log are intact:\n%s", c.events, fuzzed)
		}
		if err := newLineReader(bytes.NewReader(fuzzed)).each(Filter{}, func(Event) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// Lines are ASCII alone and say what the event says, whatever text is in it.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"/a?\x7f<é😀>", "\"\\\x00\x1f\b\n", "\u202e\u2028\ufffd\U0010ffff", "\xff\xed\xa0\x80"} {
		f.Add(text, int64(-1), 1e-7)
	}
	f.Fuzz(func(t *testing.T, text string, number int64, cost float64) {
		e := Event{Seq: 1, Sandbox: text, Path: text, Reason: text, BytesIn: number, Cost: cost, Time: time.Unix(number%(1<<32), 0).UTC()}
		line, err := appendLine([]byte("before"), &e)
		if err != nil {
			return
		}
		line = line[len("before"):]
		for _, c := range line {
			if c < ' ' || c >= 0x7f {
				t.Fatalf("%q", line)
			}
		}
		got, err := decode(line)
		testdir.Must(t, err)
		want := e
		want.Sandbox, want.Path, want.Reason = got.Sandbox, got.Path, got.Reason
		if text := []rune(text); string(text) != got.Path {
			t.Fatalf("%q is read as %q", string(text), got.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
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
		testdir.Must(t, l.Record(Event{Kind: HTTP, Verdict: "allow", Host: "flood.test", Path: "/" + strings.Repeat("x", 1000)}))
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
func TestConcurrentRecords(t *testing.T) {
	path := newPath(t)
	l := openLog(t, path)
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
