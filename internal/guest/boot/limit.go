package boot

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// LimitName is argv[0] of the limit shim, by which main knows it.
const LimitName = "guest-limit"

// killFirstScore makes a process half as large again as memory in the eyes of
// the out-of-memory killer (proc(5), oom_score_adj).
const killFirstScore = "500"

// Limit is the whole life of the shim: it puts limits on its own process and
// becomes the program that was asked for. args are what follows argv[0]: the number of tasks (0:
// no bound), whether to be killed first (0 or 1), the program's path, its argv. Limits
// are put on here and not in PID 1, which must be able to fork when the
// sandbox is full. It returns only if that fails, with the exit code of the process.
func Limit(args []string) int {
	if len(args) < 4 {
		return limitFailed("the limit shim", fmt.Errorf("%d arguments", len(args)))
	}
	path, argv := args[2], args[3:]
	if err := putLimits(args[0], args[1]); err != nil {
		return limitFailed(argv[0], err)
	}
	err := unix.Exec(path, argv, os.Environ())
	if err == unix.ENOEXEC {
		path, argv = asScript(path, argv)
		err = unix.Exec(path, argv, os.Environ())
	}
	return limitFailed(argv[0], err)
}

func putLimits(tasks, killFirst string) error {
	if killFirst == "1" {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(killFirstScore), 0); err != nil {
			return fmt.Errorf("setting oom_score_adj: %w", err)
		}
	}
	n, err := strconv.ParseUint(tasks, 10, 32)
	if err != nil || n == 0 {
		return err
	}
	limit := unix.Rlimit{Cur: n, Max: n}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		return fmt.Errorf("limiting tasks to %d: %w", n, err)
	}
	return nil
}

func limitFailed(what string, err error) int {
	fmt.Fprintf(os.Stderr, "forage-ctl: starting %s: %v\n", what, err)
	return 126
}
