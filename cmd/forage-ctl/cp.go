package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage/internal/term"
)

func newCp(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files between this machine and a sandbox",
		Long: `
One of SRC and DST is NAME:PATH, a path in the running sandbox NAME; it starts
at /workspace unless it begins with a slash. Folders are copied with all that is
in them. A folder that is there takes what is copied under its own name; SRC/.
is what is in a folder. Files that are there are replaced.

Links are copied as links. One that leads out of the folder that is copied stays
behind, and so do sockets and devices. What an agent wrote may do harm on this
machine: look at it before you run it.`,
		Example: `
forage-ctl cp notes.txt work:
forage-ctl cp work:/workspace/report.pdf .
forage-ctl cp ./data/. work:/tmp/data
forage-ctl cp work:/workspace/build ~/out`,
		Annotations: map[string]string{exitNote: "2"},
		Args: func(c *cobra.Command, args []string) error {
			switch len(args) {
			case 0, 1:
				return usageError(c, "copy what, and where to?")
			case 2:
				return nil
			}
			return usageError(c, "unexpected argument %q", args[2])
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			names, _ := a.completeNames(c, nil, prefix)
			for i := range names {
				names[i] += ":"
			}
			return names, cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(c *cobra.Command, args []string) error { return runCp(c, a, args[0], args[1]) },
	}
}

func runCp(c *cobra.Command, a *app, src, dst string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	progress := a.progress("copying")
	defer progress.end()
	copied, err := service.Copy(c.Context(), src, dst, func(n int64) { progress.say(term.Bytes(n)) })
	progress.end()
	for _, skipped := range copied.Skipped {
		a.note("not copied: " + term.Escape(skipped))
	}
	if more := copied.SkippedCount - len(copied.Skipped); more > 0 {
		a.note(fmt.Sprintf("not copied: %d more", more))
	}
	return err
}
