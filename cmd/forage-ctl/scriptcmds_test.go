package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// conditionDeadline is how long a condition may take to come true.
const conditionDeadline = 2 * time.Minute

// scriptCommands are what scripts can do beside testscript's own commands:
//
//	[!] forage-ctl ARG...            run it; it must (not) exit with 0
//	exits CODE PROGRAM ARG...        run it; it must exit with CODE, 128+N for signal N
//	until PATTERN PROGRAM ARG...     run it again and again until its output matches
//	json PATH VALUE                  the value at a.0.b in the JSON of the last command's stdout; VALUE is JSON or a word
//	kill-role SIGNAL ROLE            send a signal to the supervisor or the guest that this script started
//	signal SIGNAL                    send a signal to every command that runs in the background
//	no-processes                     nothing that this script started runs any more
//	nothing-left                     no process, mount, run-time folder or record is there
//	serve NAME                       a web server on the host; its address is in $NAME
//	serve-tls NAME HOST...           one that speaks HTTPS for those names, see serveTLSCommand
//	serve-model NAME HOST...         one that answers as a language model, see serveModelCommand
//	take-port PORT                   something else listens there, until the script ends
//	session PAGE [OLD=NEW...]        the configurations and commands of a page of the docs, see sessionCommand
//	pty ...                          a terminal with keys that are pressed, see ptyCommand
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"forage-ctl":   forageCommand,
		"exits":        exitsCommand,
		"until":        untilCommand,
		"json":         jsonCommand,
		"kill-role":    killRoleCommand,
		"signal":       signalCommand,
		"no-processes": noProcessesCommand,
		"nothing-left": nothingLeftCommand,
		"serve":        serveCommand,
		"serve-tls":    serveTLSCommand,
		"serve-model":  serveModelCommand,
		"take-port":    takePortCommand,
		"pty":          ptyCommand,
		"session":      sessionCommand,
	}
}

func forageCommand(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("forage-ctl", args...)
	if neg && err == nil {
		ts.Fatalf("it succeeded, and should not")
	}
	if !neg && err != nil {
		ts.Fatalf("forage-ctl: %v", err)
	}
}

func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, err := exitCode(ts.Exec(args[1], args[2:]...))
	ts.Check(err)
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// exitCode is the exit status that a shell would show for how a command ended.
func exitCode(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	status := exit.Sys().(interface {
		Signaled() bool
		ExitStatus() int
	})
	if status.Signaled() {
		return 128 + int(exit.Sys().(interface{ Signal() unix.Signal }).Signal()), nil
	}
	return status.ExitStatus(), nil
}

func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] until PATTERN PROGRAM ARG...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out []byte
	if !waitFor(func() bool {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir, cmd.Env = ts.MkAbs("."), scriptEnv(ts)
		out, _ = cmd.CombinedOutput()
		return pattern.Match(out) != neg
	}) {
		ts.Fatalf("after %v it still prints\n%s", conditionDeadline, out)
	}
}

// scriptEnv is the environment that the script's commands see.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{
		"PATH", "HOME", "LANG", "TERM", "TMPDIR", "WORK", "SHELL", "USER", "NO_COLOR", "BROWSER",
		"FORAGE_CONFIG", "FORAGE_STATE_DIR", "FORAGE_RUNTIME_DIR",
		"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	} {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// waitFor asks for a condition until it is true or the deadline has passed.
func waitFor(isTrue func() bool) bool {
	deadline := time.After(conditionDeadline)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !isTrue() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] json PATH VALUE")
	}
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &value))
	got, err := lookUp(value, args[0])
	if neg && err != nil {
		return
	}
	ts.Check(err)
	text, err := json.Marshal(got)
	ts.Check(err)
	if word, ok := got.(string); ok && word == args[1] {
		text = []byte(args[1])
	}
	if (string(text) == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], text, args[1])
	}
}

// lookUp follows a path of keys and indexes; "." is value itself, and "len" a length.
func lookUp(value any, path string) (any, error) {
	if path == "." {
		return value, nil
	}
	for key := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case map[string]any:
			found, ok := inner[key]
			if !ok {
				return nil, fmt.Errorf("%s: there is no %q", path, key)
			}
			value = found
		case []any:
			if key == "len" {
				value = float64(len(inner))
				continue
			}
			index, err := strconv.Atoi(key)
			if err != nil || index < 0 || index >= len(inner) {
				return nil, fmt.Errorf("%s: no element %q of %d", path, key, len(inner))
			}
			value = inner[index]
		default:
			return nil, fmt.Errorf("%s: nothing below %q", path, key)
		}
	}
	return value, nil
}

func killRoleCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: kill-role SIGNAL supervisor|guest")
	}
	signal := unix.SignalNum("SIG" + args[0])
	if signal == 0 {
		ts.Fatalf("no signal %q", args[0])
	}
	for _, pid := range descendants(os.Getpid()) {
		if strings.Contains(commandLineOf(pid), " "+args[1]) {
			ts.Check(unix.Kill(pid, signal))
			return
		}
	}
	ts.Fatalf("no %s runs", args[1])
}

func nothingLeftCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: nothing-left")
	}
	var left error
	if !waitFor(func() bool {
		left = leftBehind(ts.Getenv("FORAGE_STATE_DIR"), ts.Getenv("FORAGE_RUNTIME_DIR"), nil)
		return left == nil
	}) {
		ts.Fatalf("left behind:\n%v", left)
	}
}

func signalCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: signal SIGNAL")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(unix.SignalNum("SIG" + args[0])))
	}
}

func noProcessesCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: no-processes")
	}
	if !waitFor(func() bool { return len(descendants(os.Getpid())) == 0 }) {
		for _, pid := range descendants(os.Getpid()) {
			ts.Logf("process %d: %s", pid, commandLineOf(pid))
		}
		ts.Fatalf("processes are left")
	}
}
