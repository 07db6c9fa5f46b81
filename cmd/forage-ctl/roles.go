package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/browse"
	"forage/internal/guest"
	"forage/internal/probe"
	"forage/internal/rootfs"
	"forage/internal/runtime/child"
	"forage/internal/supervisor"
)

// roleOf returns what this process is to be when it was not started by a
// user: part of a sandbox, or its supervisor. Those never come back here.
func roleOf(args []string) func() int {
	switch args[0] {
	case guest.LimitName:
		return func() int { return guest.Limit(args[1:]) }
	case guest.SFTPName:
		return guest.SFTP
	}
	if slices.Contains(forage.Browsers(), filepath.Base(args[0])) {
		return func() int { return browse.Ask(args[1:], os.Stderr) }
	}
	if len(args) != 2 {
		return nil
	}
	switch args[1] {
	case child.ContainArgument:
		return child.Contain
	case child.Argument, child.StreamArgument, child.ContainerArgument, child.ContainerStreamArgument:
		return beGuest
	case child.StageArgument:
		return beStage
	case supervisor.Argument:
		return func() int { return supervisor.Main(os.Stdin, os.Stdout) }
	case probe.Argument:
		return beProbe
	case probe.ChildArgument:
		return probe.Child
	}
	return nil
}

// beGuest is the life of a sandbox's first process. What goes wrong has been
// told to the host over the control channel already.
func beGuest() int {
	entered, err := child.Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // a stream may end before what went over it has arrived
		return 1
	}
	err = guest.Serve(guest.Options{
		Program: child.Program,
		Conn:    entered.Control, Config: entered.Guest, SSH: entered.SSH, Log: entered.Log, Confine: entered.Confine,
		Forward: entered.Forward, Open: entered.Open,
	})
	if err != nil {
		return 1
	}
	return 0
}

// beStage builds a sandbox and becomes the program that runs it.
func beStage() int {
	fmt.Fprintln(os.Stderr, child.Stage()) // which the host has heard of, or reads as it ends
	return 1
}

// beProbe attacks the sandbox that it runs in and prints which walls held. Standard input says what
// the sandbox is promised; empty is nothing.
func beProbe() int {
	opts := probe.Options{Environment: rootfs.Variables()}
	if err := json.NewDecoder(os.Stdin).Decode(&opts); err != nil && err != io.EOF {
		fmt.Fprintln(os.Stderr, "forage-ctl:", err)
		return 1
	}
	results := probe.Run(context.Background(), opts)
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, "forage-ctl:", err)
		return 1
	}
	return 0
}
