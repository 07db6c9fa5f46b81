package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"forage/internal/config"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

func newConfig(a *app) *cobra.Command {
	var f format
	show := command("config show", noArgs, func(*cobra.Command, []string) error {
		loaded, err := a.loadConfig(a.configFile)
		if err != nil {
			return err
		}
		text, err := loaded.TOML()
		if f.json(a) {
			text, err = loaded.JSON()
		}
		return firstError(err, a.write(string(text)))
	})
	f.add(show)
	check := command("config check", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
		file := a.configFile
		if len(args) > 0 {
			file = args[0]
		}
		if len(args) > 1 {
			return usageError(c, "unexpected argument %q", args[1])
		}
		loaded, err := a.loadConfig(file)
		if err != nil {
			return err
		}
		text := ""
		for _, file := range loaded.Files {
			text += term.Escape(file) + ": ok\n"
		}
		if text == "" {
			text = "no file is there: the defaults are in force\n"
		}
		return a.write(text)
	})
	check.ValidArgsFunction = cobra.FixedCompletions([]cobra.Completion{"toml", "json"}, cobra.ShellCompDirectiveFilterFileExt)
	schema := command("config schema", noArgs, func(*cobra.Command, []string) error { return a.write(config.Schema()) })
	begin := command("config init", noArgs, func(*cobra.Command, []string) error {
		env, err := a.configEnv(a.configFile)
		if err != nil {
			return err
		}
		path, err := config.Init(env)
		if err != nil {
			return err
		}
		return a.write(term.Escape(path) + "\nnext: edit it, everything in it is switched off; then: forage-ctl config check\n")
	})
	return group("config", show, check, schema, begin)
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
