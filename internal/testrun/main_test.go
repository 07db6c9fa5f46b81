package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage/internal/testdir"
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
	testdir.Must(t, err)
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
			testdir.Must(t, err)
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

// TestAgain runs suites that fail, and looks what passing later is worth.
func TestAgain(t *testing.T) {
	const good, bad, skipped = `{"Action":"pass","Package":"forage/NAME","Test":"TestIt"}\n{"Action":"pass","Package":"forage/NAME"}\n`,
		`{"Action":"fail","Package":"forage/NAME","Test":"TestIt"}\n{"Action":"fail","Package":"forage/NAME"}\n`,
		`{"Action":"skip","Package":"forage/NAME","Test":"TestIt"}\n{"Action":"pass","Package":"forage/NAME"}\n`
	suite := func(first, status, second, statusAgain string) []string {
		again := "printf '" + strings.ReplaceAll(second, "NAME", `'"${2#forage/}"'`) + "'; exit " + statusAgain
		return []string{"sh", "-c", `case $1 in -count=2) ` + again + `;; *) printf '` + first + `'; exit ` + status + `;; esac`, "suite", "./..."}
	}
	named := func(events string, names ...string) (all string) {
		for _, name := range names {
			all += strings.ReplaceAll(events, "NAME", name)
		}
		return all
	}
	for name, tt := range map[string]struct {
		argv  []string
		fails string // a part of the error; "" is none
		says  string
	}{
		"nothing failed":    {suite(named(good, "a"), "0", "", "1"), "", ""},
		"by chance":         {suite(named(bad, "a"), "1", good, "0"), "", "unsteady: forage/a TestIt failed, and passed 2 times"},
		"two by chance":     {suite(named(bad, "a", "b"), "1", good, "0"), "", "unsteady: forage/b TestIt"},
		"again":             {suite(named(bad, "a"), "1", bad, "1"), "forage/a TestIt: fail", "again: forage/a\n"},
		"once of two times": {suite(named(bad, "a"), "1", bad+good, "1"), "forage/a TestIt: fail", "again: forage/a\n"},
		"skipped then":      {suite(named(bad, "a"), "1", skipped, "0"), "forage/a TestIt: skip", "again"},
		"not run then":      {suite(named(bad, "a"), "1", "", "0"), "forage/a TestIt: fail", "again"},
		"too many":          {suite(named(bad, "a", "b", "c"), "1", good, "0"), "3 packages failed", ""},
		"of no package":     {suite("", "1", good, "0"), "0 packages failed", ""},
		"ended by a signal": {[]string{"sh", "-c", "kill -9 $$", "./..."}, "signal 9", ""},
		"no tests at all":   {suite(named(bad, "a"), "2", good, "0"), "exit status 2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := judge(tt.argv, nil, &out)
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("got %v, want %q", err, tt.fails)
			}
			if !strings.Contains(out.String(), tt.says) || tt.says == "" && strings.Contains(out.String(), "unsteady") {
				t.Errorf("said %q, want %q", &out, tt.says)
			}
		})
	}
}

// TestLeftovers runs a suite, in a process of its own, that leaves a process behind.
func TestLeftovers(t *testing.T) {
	if os.Getenv("TESTRUN_LEFTOVERS") != "" {
		testdir.Must(t, becomeSubreaper())
		// The suite ends when what it leaves has said that it runs: one that has not come to
		// execve(2) has another name.
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
