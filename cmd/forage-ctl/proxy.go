package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"forage/internal/config"
	"forage/internal/proxy"
)

func newProxy(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "proxy",
		Short: "Serve egress to containers and other machines",
		Long: `
Runs the way out of a sandbox as a service of its own, for what runs elsewhere
and is told to use a proxy: rules, secrets, budgets and audit are those of the
template that [proxy] names for each client. Clients prove who they are by a
token on loopback and unix sockets, and by a certificate over TLS.

It stays in the foreground, and reads its configuration again on SIGHUP and when
a file has changed: connections of clients that are changed by that are reset.
SIGTERM lets streams end for a while.`,
		Example: `
forage-ctl proxy --config /etc/forage-proxy/config.toml
curl -x http://build:TOKEN@127.0.0.1:3128 http://forage.internal/ca.pem`,
		Annotations:       map[string]string{exitNote: "6 7 8"},
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runProxy(c.Context(), a) },
	}
}

func runProxy(ctx context.Context, a *app) error {
	env, err := a.configEnv(a.configFile)
	if err != nil {
		return err
	}
	places, err := env.Places()
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGHUP) // it ends other commands
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	defer signal.Stop(hangup)
	return proxy.Run(ctx, proxy.Options{
		Load:   func() (*config.Config, error) { return config.Load(env) },
		Watch:  places,
		Getenv: os.LookupEnv,
		Home:   env.Home,
		Log:    a.serviceLog(),
		Hangup: hangup,
	})
}

// serviceLog is where a service says what it does: stderr, from Info on unless --verbose asks for
// more.
func (a *app) serviceLog() *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if a.verbose {
		options.Level = slog.LevelDebug
	}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}
