package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"forage/internal/hostexec"
	"forage/internal/sandbox"
	"forage/internal/sandbox/work"
	"forage/internal/term"
	"forage/internal/workspace/review"
)

func newDiff(a *app) *cobra.Command {
	var o work.ReviewOptions
	var stat, noPager, noScreen bool
	var f format
	c := a.named("diff", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, name string) error {
		if err := notEmpty(c, "part"); err != nil {
			return err
		}
		if a.interactive() && !stat && !noPager && !noScreen && !f.json(a) && os.Getenv("TERM") != "dumb" {
			return a.reviewOnScreen(c.Context(), s, name, o)
		}
		return s.Work.Diff(c.Context(), name, o, func(sessions []*review.Session) (bool, error) {
			reviews := make([]review.Review, len(sessions))
			for i, session := range sessions {
				reviews[i] = session.Review
			}
			return !stat && !f.json(a), f.show(a, reviews, func() error {
				return a.page(noPager, func(out io.Writer, colour bool) error {
					// Prints all parts: of each what host tools would execute, before all else.
					ctx := c.Context()
					p := paper{out, colour}
					for i, session := range sessions {
						if len(sessions) > 1 {
							if i > 0 {
								fmt.Fprintln(p.out)
							}
							if err := p.heading("== %s ==", term.Escape(session.Part)); err != nil {
								return err
							}
						}
						if err := printReview(ctx, p, session, stat); err != nil {
							return err
						}
					}
					return nil
				})
			})
		})
	})
	c.Flags().BoolVar(&stat, "stat", false, "only the names of the files, and how many lines were changed")
	c.Flags().StringVar(&o.Part, "part", "", "only this `PART` of a composed workspace")
	c.Flags().BoolVar(&noScreen, "no-screen", false, "no screen: print to the pager")
	c.Flags().BoolVar(&noPager, "no-pager", false, "no screen and no pager: write to the terminal itself")
	f.add(c)
	return c
}

// page has show write to the terminal by way of the user's pager, or else to where results go.
func (a *app) page(noPager bool, show func(out io.Writer, colour bool) error) error {
	file, ok := a.out.(*os.File)
	if !ok || !xterm.IsTerminal(int(file.Fd())) {
		return show(a.out, false)
	}
	colour := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	pager, set := os.LookupEnv("PAGER")
	if !set {
		pager = "less"
		if _, err := hostexec.Find(pager); err != nil {
			pager = ""
		}
	}
	if noPager || pager == "" || pager == "cat" {
		return show(a.out, colour)
	}
	return hostexec.Pager(pager, file, func(out io.Writer) error { return show(out, colour) })
}

func newApply(a *app) *cobra.Command {
	var o work.ApplyOptions
	var f format
	c := command("apply", nameAndPaths, a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		o.Paths = append(o.Paths, args[1:]...)
		if err := notEmpty(c, "into", "part"); err != nil {
			return err
		}
		done, err := s.Work.Apply(c.Context(), args[0], o)
		return firstError(err, f.show(a, done, func() error {
			for _, d := range done {
				printApplied(a, d, o.DryRun, len(done) > 1)
			}
			return nil
		}))
	}))
	c.ValidArgsFunction = a.completeName
	c.Flags().StringVar(&o.Into, "into", "", "bring it to this `BRANCH`, which is made if there is none")
	c.Flags().StringArrayVar(&o.Paths, "paths", nil, "only what is at or below these `PATHS` of the repository")
	c.Flags().StringVar(&o.Part, "part", "", "only this `PART` of a composed workspace")
	c.Flags().BoolVar(&o.NoCommit, "no-commit", false, "what is not committed comes as changes in your folder, and not as a commit")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "check everything and say what would be done; no file and no branch changes")
	f.add(c)
	return c
}

func printApplied(a *app, d review.Applied, dryRun, named bool) {
	for _, line := range appliedLines(d, dryRun, named) {
		fmt.Fprintln(a.out, line)
	}
	a.notes(d.Notes)
}

// appliedLines say what was done, escaped.
func appliedLines(d review.Applied, dryRun, named bool) (lines []string) {
	part := ""
	if named {
		part = term.Escape(d.Part) + ": "
	}
	has, did, how := "has", "is now at", "moved forward"
	if dryRun {
		has, did = "would have", "would be at"
	}
	switch {
	case d.Merged:
		how = "merged"
	case d.Before == "":
		how = "made"
	}
	switch {
	case !d.Changes():
		return []string{part + "there is nothing to apply"}
	case d.Branch == "":
		return []string{fmt.Sprintf("%s%s %s %s changed", part, term.Escape(d.Folder), has, term.Count(d.Files, "file"))}
	case d.Left > 0:
		lines = append(lines, fmt.Sprintf("%s%s in %s not committed", part, term.Count(d.Left, "changed file"), term.Escape(d.Folder)))
	}
	if d.After == d.Before {
		return lines
	}
	lines = append(lines, fmt.Sprintf("%s%s %s %.10s (%s, %s)", part, term.Escape(d.Branch), did, d.After, how, term.Count(d.Files, "file")))
	if d.Before != "" && d.Folder != "" && !dryRun {
		lines = append(lines, fmt.Sprintf("to take it back: git -C %s reset --keep %.10s", term.Escape(term.ShellWord(d.Folder)), d.Before))
	}
	return lines
}

func newQuarantine(a *app) *cobra.Command {
	var o work.QuarantineOptions
	var f format
	c := command("quarantine", nameAndPaths, a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		o.Paths = append(o.Paths, args[1:]...)
		if o.All && len(o.Paths) > 0 {
			return usageError(c, "--all and --paths exclude one another")
		}
		moved, err := s.Work.Quarantine(c.Context(), args[0], o)
		return firstError(f.show(a, moved, func() error {
			if len(moved) == 0 && err == nil {
				a.note("there is nothing to move aside")
			}
			for _, m := range moved {
				if m.Error == "" {
					fmt.Fprintf(a.out, "%s -> %s\n", term.Escape(m.Path), term.Escape(m.To))
				}
			}
			return nil
		}), err)
	}))
	c.ValidArgsFunction = a.completeName
	c.Flags().BoolVar(&o.All, "all", false, "also what takes a build, a push or a start by name")
	c.Flags().StringArrayVar(&o.Paths, "paths", nil, "only what is at or below these `PATHS` of the workspace")
	f.add(c)
	return c
}

func newVolumes(a *app) *cobra.Command {
	var f format
	list := a.unnamed("volumes list", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service) error {
		volumes, err := s.Volumes()
		t := newTable("NAME", "USED BY")
		for _, volume := range volumes {
			t.Row(volume.Name, dash(strings.Join(volume.UsedBy, ",")))
		}
		return firstError(f.show(a, volumes, t.printer(a)), err)
	})
	f.add(list)
	remove := command("volumes remove", cobra.ArbitraryArgs, a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		if len(args) == 0 {
			return usageError(c, "which volume?")
		}
		var errs []error
		for _, name := range args {
			errs = append(errs, s.RemoveVolume(name))
		}
		return errors.Join(errs...)
	}))
	remove.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.offer(func(s *sandbox.Service) (names []string) {
			volumes, _ := s.Volumes() // what can be listed is offered
			for _, volume := range volumes {
				names = append(names, volume.Name)
			}
			return names
		})
	}
	return group("volumes", list, remove)
}

func newImages(a *app) *cobra.Command {
	var f format
	list := a.unnamed("images list", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service) error {
		images, err := s.Images()
		t := newTable("IMAGE", "DIGEST", "SIZE", "USED", "USED BY")
		for _, one := range images {
			_, digest, _ := strings.Cut(one.Digest, ":")
			t.Row(one.Name, dash(digest[:min(12, len(digest))]), term.Bytes(one.Size), age(time.Since(one.Used)), dash(strings.Join(one.UsedBy, ",")))
		}
		return firstError(f.show(a, images, t.printer(a)), err)
	})
	f.add(list)
	prune := a.unnamed("images prune", a.service, func(c *cobra.Command, s *sandbox.Service) error {
		removed, err := s.PruneImages()
		for _, one := range removed {
			a.note(fmt.Sprintf("removed %s, %s", one.Name, term.Bytes(one.Size)))
		}
		return err
	})
	return group("images", list, prune)
}
