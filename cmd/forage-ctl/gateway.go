package main

import (
	"context"
	"net"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/gateway"
	"forage/internal/sandbox"
	"forage/internal/sshkeys"
	"forage/internal/systemd"
)

func newGateway(a *app) *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "gateway [flags]",
		Short: "Serve all sandboxes on one SSH port",
		Long: `
Runs an SSH server that leads to all of your sandboxes. Who holds a key of
authorizedKeys logs in, with the sandbox as the user name or as the command. A
key may be limited: sandboxes="work,web-*" before it names those it is for, and
with read-only its holder may attach and look.

It stays in the foreground until SIGTERM. What runs in sandboxes goes on.`,
		Example: `
forage-ctl gateway --listen :2200
ssh -p 2200 work@host                      # attach to the agent's session
ssh -p 2200 forage@host work -- make test  # run a command
scp -P 2200 file work@host:
ssh -p 2200 -L 3000:localhost:3000 work@host`,
		Annotations:       map[string]string{exitNote: "4 6"},
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runGateway(c.Context(), a, listen) },
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:2200", "listen on this `ADDRESS`; :2200 is every address of this machine")
	return c
}

func runGateway(ctx context.Context, a *app, listen string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	own, err := sshkeys.Client(service.Places.State) // always works for its owner
	if err != nil {
		return err
	}
	hostKey, err := sshkeys.Gateway(service.Places.State)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return forage.Errorf(forage.ErrNoPort, "listening for SSH: %w", err)
	}
	log := a.serviceLog()
	server := gateway.New(gateway.Options{
		HostKey: hostKey, Log: log, Sandboxes: sandbox.Gateway{Service: service},
		Keys: func() ([]string, error) { // as they are now: a key that was taken out lets nobody in
			now, err := a.service()
			if err != nil {
				return nil, err
			}
			return append(now.Config.AuthorizedKeys, sshkeys.Line(own.PublicKey())), nil
		},
		Clipboard: slices.Contains(service.Config.Terminal, "clipboard"), Title: slices.Contains(service.Config.Terminal, "title"),
	})
	log.Info("listening", "address", listener.Addr().String(), "hostKey", sshkeys.Line(hostKey.PublicKey()))
	if err := systemd.Notify(os.Getenv("NOTIFY_SOCKET"), "READY=1"); err != nil {
		log.Warn("telling the service manager", "error", err)
	}
	server.Serve(ctx, listener)
	return nil
}
