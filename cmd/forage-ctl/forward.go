package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
)

func newForward(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forward NAME LOCAL[:REMOTE]...",
		Short: "Reach servers in a sandbox at ports of this machine",
		Long: `
Has the port LOCAL of this machine's loopback lead to the port REMOTE of the
sandbox's, or to the same one, until you press Ctrl-C. With 0 as LOCAL it takes
any port that is free, and says which. The server inside may listen on 127.0.0.1
or on all addresses, and may be started later.`,
		Example: `
forage-ctl forward work 3000
forage-ctl forward work 8080:80 5432 0:9229`,
		Annotations: map[string]string{exitNote: "2 128+N"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return usageError(c, "which port?")
			}
			return oneName(c, args[:min(len(args), 1)])
		},
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runForward(c, a, args[0], args[1:]) },
	}
}

func runForward(c *cobra.Command, a *app, name string, ports []string) error {
	all := make([]sandbox.Forwarding, len(ports))
	for i, text := range ports {
		forwarding, err := sandbox.ParseForwarding(text)
		if err != nil {
			return forage.WithHint(usageError(c, "%w", err), forage.Hint(err))
		}
		all[i] = forwarding
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	return service.Forward(c.Context(), name, all, func(f sandbox.Forwarding) error {
		return a.write(fmt.Sprintf("localhost:%d -> %s port %d\n", f.Local, name, f.Remote))
	})
}
