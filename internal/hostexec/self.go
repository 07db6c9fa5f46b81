package hostexec

import (
	"os"
	"os/exec"
)

// Self is this program again, for the user at its terminal, with their environment.
func Self(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0], cmd.Env = "forage-ctl", os.Environ()
	return cmd
}
