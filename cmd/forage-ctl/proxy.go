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
	return command("proxy", noArgs, func(c *cobra.Command, _ []string) error { return runProxy(c.Context(), a) })
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
		Log:    a.log(slog.LevelInfo),
		Hangup: hangup,
	})
}
