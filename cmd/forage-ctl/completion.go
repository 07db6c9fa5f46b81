package main

import (
	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print completions for a shell",
		Example: `
source <(forage-ctl completion bash)
forage-ctl completion zsh > "${fpath[1]}/_forage-ctl"
forage-ctl completion fish > ~/.config/fish/completions/forage-ctl.fish`,
		ValidArgs: shells,
		Args: func(c *cobra.Command, args []string) error {
			var shell string
			if len(args) != 1 {
				return usageError(c, "which shell?")
			}
			if err := (choice{&shell, shells}).Set(args[0]); err != nil {
				return usageError(c, "%q: %w", args[0], err)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return runCompletion(a, c.Root(), args[0]) },
	}
}

func runCompletion(a *app, root *cobra.Command, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(a.out, true)
	case "zsh":
		return root.GenZshCompletion(a.out)
	case "fish":
		return root.GenFishCompletion(a.out, true)
	default:
		return root.GenPowerShellCompletionWithDesc(a.out)
	}
}
