package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"forage"
	"forage/internal/testdir"
	"forage/internal/unixsock"
)

// patience is how long anything may take that is waited for.
const patience = 2 * time.Minute

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	listener, err := unixsock.Listen(path)
	testdir.Must(t, err)
	return listener
}

func open(t *testing.T, src forage.SecretSource, env map[string]string) Source {
	t.Helper()
	source, err := Open(t.Context(), src, env)
	testdir.Must(t, err)
	return source
}

// wants checks what a source gives.
func wants(t *testing.T, source Source, want string) {
	t.Helper()
	if got, err := source.Get(t.Context()); got.Reveal() != want || err != nil {
		t.Errorf("got %q, %v; want %q", got.Reveal(), err, want)
	}
}

// fails checks that a source fails, with an error that tells nothing of the value.
func fails(t *testing.T, source Source, want, value string) {
	t.Helper()
	got, err := source.Get(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, %v; want an error with %q", got.Reveal(), err, want)
	} else if value != "" && strings.Contains(err.Error()+forage.Hint(err), value) {
		t.Errorf("the error tells the value: %v", err)
	}
}

func TestASecretDoesNotPrint(t *testing.T) {
	s := New("hidden-value")
	text, err := json.Marshal(map[string]any{"a": s, "b": []Secret{s}})
	testdir.Must(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s)
	for _, got := range []string{string(text), log.String(), fmt.Sprint(s), fmt.Sprintf("%v %+v %s %q %#v %d %x", s, s, s, s, s, s, s),
		fmt.Sprintf("%v %+v", struct{ S Secret }{s}, &s), fmt.Sprint(errors.New(s.String()))} {
		if strings.Contains(got, "hidden") || strings.Contains(got, "68696464") || !strings.Contains(got, "redacted") {
			t.Errorf("printed: %s", got)
		}
	}
	inside := struct{ of struct{ s Secret } }{struct{ s Secret }{s}} // where fmt asks no method
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, inside); strings.Contains(got, "hidden") || strings.Contains(got, "68696464") {
			t.Errorf("%s inside of a struct printed: %s", verb, got)
		}
	}
}

func TestValues(t *testing.T) {
	long := strings.Repeat("a", valueMax)
	for _, test := range []struct{ text, want, err string }{
		{"value", "value", ""},
		{"value\n", "value", ""},
		{"value\r\n", "value", ""},
		{" spaces stay ", " spaces stay ", ""},
		{"tab\tno", "", "control characters"},
		{"grün", "grün", ""},
		{"value\n\n", "", "more than one line"},
		{"a\nb", "", "more than one line"},
		{"a\rb", "", "more than one line"},
		{"a\r\nX-Evil: 1\n", "", "more than one line"},
		{"a\x00b", "", "control characters"},
		{"a\x7fb", "", "control characters"},
		{"\x1b[31m", "", "control characters"},
		{"", "", "empty"},
		{"\n", "", "empty"},
		{long + "\n", long, ""},
		{long + "a", "", "longer than 64 KiB"},
		{long + "aaaaaaa", "", "longer than 64 KiB"},
		{"{\n  \"AccessKeyId\": \"A\",\n  \"b\": \"c d\"\n}\n", `{"AccessKeyId":"A","b":"c d"}`, ""},
		{"{\nno JSON", "", "more than one line"},
	} {
		got, err := clean([]byte(test.text))
		if got.Reveal() != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%.40q gives %.40q, %v; want %.40q, %q", test.text, got.Reveal(), err, test.want, test.err)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Add([]byte("{\n\"a\":\n1}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		value, err := clean(text)
		if got := value.Reveal(); (err == nil) == (got == "") || strings.ContainsAny(got, "\r\n\x00") {
			t.Fatalf("%q gives %q, %v", text, got, err)
		}
	})
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		testdir.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	source := open(t, forage.SecretSource{File: path}, nil)
	fails(t, source, "no such file", "")
	write("first\n")
	wants(t, source, "first")
	wants(t, source, "first")
	write("other\n") // as long
	wants(t, source, "other")
	write("two\nlines")
	fails(t, source, "more than one line", "two")
	testdir.Must(t, os.Remove(path))
	fails(t, source, "no such file", "")
	elsewhere := filepath.Join(t.TempDir(), "real")
	testdir.Must(t, errors.Join(os.WriteFile(elsewhere, []byte("linked"), 0o600), os.Symlink(elsewhere, path)))
	wants(t, source, "linked")
}

func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	testdir.Must(t, syscall.Mkfifo(fifo, 0o600))
	listener := listen(t, filepath.Join(dir, "socket"))
	defer listener.Close()
	for _, path := range []string{dir, fifo, "/dev/zero", "/dev/null"} {
		fails(t, open(t, forage.SecretSource{File: path}, nil), "not a regular file", "")
	}
	fails(t, open(t, forage.SecretSource{File: filepath.Join(dir, "socket")}, nil), "", "")
}

func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	testdir.Must(t, os.WriteFile(path, nil, 0o600))
	if notes := Notes(forage.SecretSource{File: path}); notes != nil {
		t.Errorf("a private file is noted: %q", notes)
	}
	testdir.Must(t, os.Chmod(path, 0o644))
	if notes := Notes(forage.SecretSource{File: path}); len(notes) != 1 || !strings.Contains(notes[0], "chmod 600 "+path) {
		t.Errorf("a file that everybody may read is noted as %q", notes)
	}
	if notes := Notes(forage.SecretSource{Env: "A"}); notes != nil {
		t.Errorf("a variable is noted: %q", notes)
	}
	for name, want := range map[string]string{"sh": "", "/bin/sh": "", "no-such-program": "write its absolute path", path + "-not": "is not there"} {
		notes := strings.Join(Notes(forage.SecretSource{Command: []string{name}}), "\n")
		if notes != want && (want == "" || !strings.Contains(notes, want)) {
			t.Errorf("the command %s is noted as %q, want %q", name, notes, want)
		}
	}
}

func TestEnv(t *testing.T) {
	wants(t, open(t, forage.SecretSource{Env: "KEY"}, map[string]string{"KEY": "value"}), "value")
	t.Setenv("KEY", "of this process")
	fails(t, open(t, forage.SecretSource{Env: "KEY"}, nil), "KEY was not set", "of this process")
	fails(t, open(t, forage.SecretSource{Env: "KEY"}, map[string]string{"KEY": "val\r\nue"}), "the variable KEY", "val")
}

func TestCommand(t *testing.T) {
	command := func(argv ...string) Source {
		return open(t, forage.SecretSource{Command: argv}, map[string]string{"HOME": "/my/home", "SECRET": "x"})
	}
	script := filepath.Join(t.TempDir(), "prints it")
	testdir.Must(t, os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o700))
	wants(t, command("printf", "%s", "a b"), "a b")
	wants(t, command(script, "a b", ";", "$HOME"), "a b|;|$HOME|")
	wants(t, command("sh", "-c", `echo "$HOME$SECRET"; echo noise >&2`), "/my/home")
	fails(t, command("sh", "-c", "echo value; exit 3"), "sh failed with exit code 3", "value")
	fails(t, command("sh", "-c", "echo value >&2; kill $$"), "sh failed with exit code -1", "value")
	fails(t, command("true"), "what true prints: it is empty", "")
	fails(t, command("no-such-program-here"), "not in the system's folders", "")
	fails(t, command(filepath.Join(t.TempDir(), "none")), "can't be run", "")
	fails(t, command("head", "-c", "70000", "/dev/zero"), "longer than 64 KiB", "")
}

func TestOpenRefuses(t *testing.T) {
	for _, src := range []forage.SecretSource{{}, {Login: &forage.Login{Kind: forage.LoginClaude, File: "/x"}}} {
		if _, err := Open(t.Context(), src, nil); err == nil {
			t.Errorf("%+v is a source", src)
		}
	}
}

// clock is time that passes when it is told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

func TestValuesAreKeptForAWhile(t *testing.T) {
	read, broken := 0, false
	time := &clock{}
	c := &cached{life: t.Context(), now: time.Now, read: func(context.Context) (Secret, error) {
		read++
		if broken {
			return Secret{}, errors.New("broken")
		}
		return New(fmt.Sprint(read)), nil
	}}
	wants(t, c, "1")
	time.pass(memory - 1)
	wants(t, c, "1")
	time.pass(1)
	wants(t, c, "2")
	broken = true
	time.pass(memory)
	fails(t, c, "broken", "")
	time.pass(setback - 1)
	fails(t, c, "broken", "")
	if read != 3 {
		t.Errorf("read %d times, want 3: failures are kept too", read)
	}
	broken = false
	time.pass(1)
	wants(t, c, "4")
}

func TestOneReadingForAll(t *testing.T) {
	started, goOn, read := make(chan bool, 1), make(chan bool), 0
	c := &cached{life: t.Context(), now: time.Now, read: func(ctx context.Context) (Secret, error) {
		read++
		started <- true
		<-goOn
		return New("value"), ctx.Err()
	}}
	impatient, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := c.Get(impatient)
		gone <- err
	}()
	<-started
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() { wants(t, c, "value") })
	}
	cancel()
	testdir.Fails(t, "who went away", context.Canceled, <-gone)
	close(goOn)
	waiting.Wait()
	if read != 1 {
		t.Errorf("read %d times", read)
	}
}
