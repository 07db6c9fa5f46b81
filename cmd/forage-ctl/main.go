// It waits for others nearly all of its time, and does not look again and again at how many
// processors its control group has.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command forage-ctl runs AI coding agents in isolated, disposable sandboxes.
//
// This package wires: it reads flags, calls the sandbox service and prints what
// comes back. What to do is decided elsewhere. The same program is also the
// supervisor of each sandbox and its guest; those roles are taken before any
// flag library is touched, because they start with every sandbox.
package main

import (
	"io"
	"log"
	"os"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what servers say, which may hold a secret
	if role := roleOf(os.Args); role != nil {
		os.Exit(role())
	}
	os.Exit(commandLine(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
