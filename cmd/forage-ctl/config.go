package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/config"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

func newConfig(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "config show|check|schema|init",
		Short: "Show, check or begin the configuration",
		Long: `
The configuration is TOML, or JSON with the same keys. For an ordinary user
the system's file is read first (/etc/firefly-forage/config.toml), then the
user's over it ($XDG_CONFIG_HOME/firefly-forage/config.toml). Nothing has to be
configured.`,
		Example:           "forage-ctl config show\nforage-ctl config check",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, "show, check, schema or init?")
			}
			return usageError(c, "it can't %q", args[0])
		},
	}
	c.AddCommand(newConfigShow(a), newConfigCheck(a), newConfigSchema(a), newConfigInit(a))
	for _, sub := range c.Commands() {
		sub.DisableFlagsInUseLine = true
	}
	return c
}

func newConfigShow(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force",
		Long: `
Prints what the files say with the defaults and built-in templates, as a file
that would mean the same.`,
		Example:           "forage-ctl config show -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return runConfigShow(a, f) },
	}
	f.add(c)
	return c
}

func runConfigShow(a *app, f format) error {
	loaded, err := a.loadConfig(a.configFile)
	if err != nil {
		return err
	}
	text, err := loaded.TOML()
	if f.json(a) {
		text, err = loaded.JSON()
	}
	return firstError(err, a.write(string(text)))
}

func newConfigCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the configuration",
		Long: `
Reads FILE, or what is read without --config, and prints everything that is
wrong with it: file, line, and the nearest key where one is unknown.`,
		Example: "forage-ctl config check\nforage-ctl config check ./config.toml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(c, "unexpected argument %q", args[1])
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{"toml", "json"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE:              func(_ *cobra.Command, args []string) error { return runConfigCheck(a, args) },
	}
}

func runConfigCheck(a *app, args []string) error {
	file := a.configFile
	if len(args) == 1 {
		file = args[0]
	}
	loaded, err := a.loadConfig(file)
	if err != nil {
		return err
	}
	if len(loaded.Files) == 0 {
		return a.write("no file is there: the defaults are in force\n")
	}
	for _, file := range loaded.Files {
		if err := a.write(term.Escape(file) + ": ok\n"); err != nil {
			return err
		}
	}
	return nil
}

func newConfigSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "schema",
		Short:             "Print the JSON schema of the configuration",
		Example:           "forage-ctl config schema > forage.schema.json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return a.write(config.Schema()) },
	}
}

func newConfigInit(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a configuration file to begin with",
		Long: `
Writes the commented reference file, in which everything is switched off, to
where your configuration is read from. A file that is there is never replaced.`,
		Example:           "forage-ctl config init",
		Annotations:       map[string]string{exitNote: fmt.Sprint(forage.ExitCode(forage.ErrRefused))},
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return runConfigInit(a) },
	}
}

func runConfigInit(a *app) error {
	env, err := a.configEnv(a.configFile)
	if err != nil {
		return err
	}
	path, err := config.Init(env)
	if err != nil {
		return err
	}
	return a.write(term.Escape(path) + "\nnext: edit it, everything in it is switched off; then: forage-ctl config check\n")
}

// loadConfig reads the configuration with file in the place of the caller's own.
func (a *app) loadConfig(file string) (*config.Config, error) {
	env, err := a.configEnv(file)
	if err != nil {
		return nil, err
	}
	return config.Load(env)
}

func (a *app) configEnv(file string) (config.Env, error) {
	me, err := plan.Me()
	return config.Env{UID: me.UID, Home: me.Home, Getenv: os.Getenv, File: file}, err
}

func (a *app) write(text string) error {
	_, err := io.WriteString(a.out, text)
	return err
}
