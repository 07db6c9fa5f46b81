package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const events = `{"Action":"start","Package":"forage/a"}
{"Action":"run","Package":"forage/a","Test":"TestGood"}
{"Action":"output","Package":"forage/a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"forage/a","Test":"TestGood"}
{"Action":"output","Package":"forage/a","Test":"TestBad","Output":"loud\n"}
{"Action":"fail","Package":"forage/a","Test":"TestBad"}
{"Action":"skip","Package":"forage/a","Test":"TestMany/one"}
{"Action":"pass","Package":"forage/a","Test":"TestMany"}
{"Action":"output","Package":"forage/a","Output":"FAIL\tforage/a\t0.1s\n"}
{"Action":"fail","Package":"forage/a"}
`

func TestReadEvents(t *testing.T) {
	var out strings.Builder
	found, err := readEvents(strings.NewReader(events), &out)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "loud\nFAIL\tforage/a\t0.1s\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got := found[test{"forage/a", "TestMany/one"}]; got != "skip" {
		t.Errorf("TestMany/one ended with %q, want skip", got)
	}
}

func TestMust(t *testing.T) {
	tests := []struct {
		list, want string // want is a part of the error; "" is none
	}{
		{"ci a TestGood why", ""},
		{"# ci a TestNone why", ""},
		{"other a TestNone why", ""},
		{"ci a TestMany why", "TestMany/one was skipped"},
		{"ci a TestNone why", "no test that matches"},
		{"ci b TestGood why", "no test that matches"},
		{"ci a TestGo why", "no test that matches"},
		{"ci a TestGood", "want a suite"},
		{"ci a Test( why", "line 1"},
	}
	for _, test := range tests {
		t.Run(test.list, func(t *testing.T) {
			found, err := readEvents(strings.NewReader(events), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := parseMust(strings.NewReader(test.list), "ci")
			if err == nil {
				err = checkMust(rows, found)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestLeftovers runs a suite, in a process of its own, that leaves a process behind.
func TestLeftovers(t *testing.T) {
	if os.Getenv("TESTRUN_LEFTOVERS") != "" {
		if err := becomeSubreaper(); err != nil {
			t.Fatal(err)
		}
		// The suite ends when what it leaves has said that it runs: one that has not come to execve(2) has another name.
		fifo := filepath.Join(t.TempDir(), "fifo")
		suite := `mkfifo "$0" && { setsid sh -c 'echo >"$0"; read never <"$0"' "$0" >/dev/null 2>&1 & read it <"$0"; }`
		if _, err := runSuite([]string{"sh", "-c", suite, fifo}, io.Discard); err != nil {
			t.Fatal(err)
		}
		err := checkLeftovers(0)
		if err == nil || !strings.Contains(err.Error(), "read never") {
			t.Fatalf("got %v, want the process that was left", err)
		}
		if err := checkLeftovers(time.Minute); err != nil {
			t.Fatalf("after it was killed: %v", err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLeftovers$")
	cmd.Env = append(os.Environ(), "TESTRUN_LEFTOVERS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestRunNeedsItsList(t *testing.T) {
	err := run("ci", filepath.Join(t.TempDir(), "absent"), []string{"true"}, io.Discard)
	if err == nil {
		t.Error("an absent list was taken for an empty one")
	}
}
