package hostexec

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Pager starts the user's own pager on the user's terminal, with the user's whole environment: it
// is theirs, as an editor is. command is a command line for the shell, as git and man take PAGER,
// and never comes from a repository or a sandbox. show writes what is to be read; that the reader
// leaves before its end is no error.
func Pager(command string, terminal *os.File, show func(io.Writer) error) error {
	shell, err := Find("sh")
	if err != nil {
		return err
	}
	cmd := exec.Command(shell, "-c", command)
	cmd.Env = os.Environ()
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} { // as git does
		if _, set := os.LookupEnv(name); !set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdout, cmd.Stderr = terminal, os.Stderr
	page, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	shown := show(page)
	err = errors.Join(page.Close(), cmd.Wait())
	if shown != nil && !errors.Is(shown, syscall.EPIPE) {
		return errors.Join(shown, err)
	}
	return nil // how the pager ended is between it and its reader
}
