package wire

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExecRoundTrip(t *testing.T) {
	for name, exec := range map[string]Exec{
		"least":    {Argv: []string{"true"}},
		"all":      {Argv: []string{"a", "", "b c"}, Dir: "/x", Env: []string{"A=", "B=c=d"}, Terminal: &Terminal{Term: "xterm", Columns: 80, Rows: 24}},
		"not text": {Argv: []string{"\xff\xfe\x01", "\n"}, Env: []string{"X=\xff"}},
		"terminal": {Argv: []string{"sh"}, Terminal: &Terminal{}},
	} {
		b, err := exec.Marshal()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := ParseExec(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(exec, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBadExec(t *testing.T) {
	for name, exec := range map[string]Exec{
		"no program":          {},
		"empty program":       {Argv: []string{""}},
		"NUL in an argument":  {Argv: []string{"a", "b\x00c"}},
		"NUL in the folder":   {Argv: []string{"a"}, Dir: "\x00"},
		"NUL in TERM":         {Argv: []string{"a"}, Terminal: &Terminal{Term: "\x00"}},
		"variable, no name":   {Argv: []string{"a"}, Env: []string{"=x"}},
		"variable, no value":  {Argv: []string{"a"}, Env: []string{"x"}},
		"larger than allowed": {Argv: []string{strings.Repeat("x", maxExec)}},
	} {
		if _, err := exec.Marshal(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	good, err := Exec{Argv: []string{"sh", "-c"}, Env: []string{"A=b"}, Terminal: &Terminal{Term: "x"}}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if _, err := ParseExec(good[:i]); err == nil {
			t.Errorf("cut to %d bytes: no error", i)
		}
	}
	if _, err := ParseExec(append(bytes.Clone(good), 0)); err == nil {
		t.Error("with something behind it: no error")
	}
	for i, value := range map[int]byte{0: 2, 1: 2} {
		bad := bytes.Clone(good)
		bad[i] = value
		if _, err := ParseExec(bad); err == nil {
			t.Errorf("byte %d is %d: no error", i, value)
		}
	}
}

// Whatever is parsed is a program that can be started, and reads the same again.
func FuzzParseExec(f *testing.F) {
	for _, exec := range []Exec{{Argv: []string{"true"}}, {Argv: []string{"a", "b"}, Dir: "/", Env: []string{"A=b"}, Terminal: &Terminal{Term: "x", Columns: 1, Rows: 2}}} {
		b, err := exec.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{1, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		exec, err := ParseExec(b)
		if err != nil {
			return
		}
		if len(exec.Argv) == 0 || exec.Argv[0] == "" || strings.Contains(strings.Join(exec.Argv, "")+strings.Join(exec.Env, ""), "\x00") {
			t.Fatalf("accepted %+v", exec)
		}
		again, err := exec.Marshal()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x (%v)", b, again, err)
		}
	})
}

func TestSignalNames(t *testing.T) {
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		name := SignalName(sig)
		if got := ParseSignal(name); got != sig {
			t.Errorf("%d is called %q, which means %d", sig, name, got)
		}
	}
	for name, want := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "TRAP@openssh.com": syscall.SIGTRAP, "": 0, "NONSENSE": 0, "SIGTERM": 0, "RT0": 0, "RT31": 0, "RT65": 0, "RT-1": 0, "RTx": 0, "@forage": 0,
	} {
		if got := ParseSignal(name); got != want {
			t.Errorf("%q means %d, want %d", name, got, want)
		}
	}
	if SignalName(syscall.SIGTERM) != "TERM" || SignalName(syscall.SIGTRAP) != "TRAP@forage" {
		t.Error("names of RFC 4254 are not sent as such")
	}
}
