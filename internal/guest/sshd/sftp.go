package sshd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// SFTPName is argv[0] of the SFTP server, by which main knows it.
const SFTPName = "guest-sftp"

// SFTP is the whole life of the SFTP server: it serves the files that the agent can
// reach on stdin and stdout, relative to the working directory. It is a confined
// process of its own: PID 1 opens no file in a client's name, since some that
// the agent can't open are open to it. It returns the process's exit code.
func SFTP() int {
	server, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
	if err == nil {
		err = server.Serve()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "forage-ctl: serving files: %v\n", err)
		return 1
	}
	return 0
}
