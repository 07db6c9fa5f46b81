package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage/internal/sandbox/work"
	"forage/internal/term"
	"forage/internal/workspace/review"
)

func newApply(a *app) *cobra.Command {
	var o work.ApplyOptions
	var f format
	c := &cobra.Command{
		Use:   "apply NAME",
		Short: "Bring the work of a sandbox into your repository",
		Long: `
Brings the sandbox's commits to the branch that is checked out in your
repository, or to another with --into, by moving it forward or by a merge. What
is not committed comes as one more commit, or with --no-commit as changes in
your folder. Your folder follows, if the branch is checked out there. With
--paths only those files come, as one commit.

In the folder that you gave a sandbox directly the files are yours already: only
the branch follows. In a jj repository it is the bookmark that stands where the
work began that moves, if there is one only.

It is all or nothing. Refused, with nothing changed: conflicts, changes of your
own in the way, a locked index, links that leave the tree, names that git or
another file system takes for .git. No hook and no filter runs. It doesn't
push.`,
		Example: `
forage-ctl apply work
forage-ctl apply work --into feature/login
forage-ctl apply work --paths src go.mod`,
		Annotations:       map[string]string{exitNote: "2 6 7"},
		Args:              nameAndPaths,
		ValidArgsFunction: a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			o.Paths = append(o.Paths, args[1:]...)
			return runApply(c, a, f, o, args[0])
		},
	}
	c.Flags().StringVar(&o.Into, "into", "", "bring it to this `BRANCH`, which is made if there is none")
	c.Flags().StringArrayVar(&o.Paths, "paths", nil, "only what is at or below these `PATHS` of the repository")
	c.Flags().StringVar(&o.Part, "part", "", "only this `PART` of a composed workspace")
	c.Flags().BoolVar(&o.NoCommit, "no-commit", false, "what is not committed comes as changes in your folder, and not as a commit")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "check everything and say what would be done; no file and no branch changes")
	f.add(c)
	return c
}

func runApply(c *cobra.Command, a *app, f format, o work.ApplyOptions, name string) error {
	if err := notEmpty(c, "into", "part"); err != nil {
		return err
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	done, err := service.Work.Apply(c.Context(), name, o)
	if f.json(a) {
		return firstError(err, printList(a, done))
	}
	for _, d := range done {
		printApplied(a, d, o.DryRun, len(done) > 1)
	}
	return err
}

func printApplied(a *app, d review.Applied, dryRun, named bool) {
	defer a.notes(d.Notes)
	part := ""
	if named {
		part = term.Escape(d.Part) + ": "
	}
	if !d.Changes() {
		fmt.Fprintf(a.out, "%sthere is nothing to apply\n", part)
		return
	}
	if d.Branch == "" {
		has := "has"
		if dryRun {
			has = "would have"
		}
		fmt.Fprintf(a.out, "%s%s %s %s changed\n", part, term.Escape(d.Folder), has, term.Count(d.Files, "file"))
		return
	}
	did, how := "is now at", "moved forward"
	if dryRun {
		did = "would be at"
	}
	switch {
	case d.Merged:
		how = "merged"
	case d.Before == "":
		how = "made"
	}
	if d.Left > 0 {
		fmt.Fprintf(a.out, "%s%s in %s not committed\n", part, term.Count(d.Left, "changed file"), term.Escape(d.Folder))
	}
	if d.After == d.Before {
		return
	}
	fmt.Fprintf(a.out, "%s%s %s %.10s (%s, %s)\n", part, term.Escape(d.Branch), did, d.After, how, term.Count(d.Files, "file"))
	if d.Before != "" && d.Folder != "" && !dryRun {
		fmt.Fprintf(a.out, "to take it back: git -C %s reset --keep %.10s\n", term.Escape(term.ShellWord(d.Folder)), d.Before)
	}
}
