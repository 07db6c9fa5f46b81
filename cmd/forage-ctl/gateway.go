package main

import (
	"context"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/gateway"
	"forage/internal/sshkeys"
	"forage/internal/systemd"
)

func newGateway(a *app) *cobra.Command {
	var listen string
	c := command("gateway", noArgs, func(c *cobra.Command, _ []string) error { return runGateway(c.Context(), a, listen) })
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:2200", "listen on this `ADDRESS`; :2200 is every address of this machine")
	return c
}

func runGateway(ctx context.Context, a *app, listen string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	own, err := sshkeys.Client(service.Host.Places.State) // always works for its owner
	if err != nil {
		return err
	}
	hostKey, err := sshkeys.Gateway(service.Host.Places.State)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return forage.Errorf(forage.ErrNoPort, "listening for SSH: %w", err)
	}
	log := a.log(slog.LevelInfo)
	picker := []string{"pick"}
	if a.configFile != "" {
		picker = append(picker, "--config", a.configFile)
	}
	server := gateway.New(gateway.Options{
		HostKey: hostKey, Log: log, Picker: picker, Sandboxes: service.Gateway(),
		Keys: func() ([]string, error) { // as they are now: a key that was taken out opens nothing
			now, err := a.service()
			if err != nil {
				return nil, err
			}
			return append(now.Host.Config.AuthorizedKeys, sshkeys.Line(own.PublicKey())), nil
		},
	})
	log.Info("listening", "address", listener.Addr().String(), "hostKey", sshkeys.Line(hostKey.PublicKey()))
	if err := systemd.Notify(os.Getenv("NOTIFY_SOCKET"), "READY=1"); err != nil {
		log.Warn("telling the service manager", "error", err)
	}
	server.Serve(ctx, listener)
	return nil
}
