package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"forage/internal/hostexec"
	"forage/internal/sandbox/work"
	"forage/internal/term"
	"forage/internal/workspace/review"
)

type diffOptions struct {
	work.ReviewOptions
	stat    bool
	noPager bool
	format  format
}

func newDiff(a *app) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff NAME",
		Short: "Show what was done in a workspace",
		Long: `
Shows the commits of the sandbox and what is not committed, against where the
work and your repository part. Files that tools of the host would execute are
listed first, with why; those that take no more than to go to the folder are
marked with !.

On a terminal it is coloured, and read in $PAGER, or in less. What a terminal
could act on is escaped, in names and in contents: this is for reading, and not
for 'git apply'. 'forage-ctl apply' brings the work into your repository.`,
		Example: `
forage-ctl diff work
forage-ctl diff work --stat
forage-ctl diff work -o json`,
		Annotations:       map[string]string{exitNote: "2 6 7"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runDiff(c, a, &o, args[0]) },
	}
	c.Flags().BoolVar(&o.stat, "stat", false, "only the names of the files, and how many lines were changed")
	c.Flags().StringVar(&o.Part, "part", "", "only this `PART` of a composed workspace")
	c.Flags().BoolVar(&o.noPager, "no-pager", false, "write to the terminal itself")
	o.format.add(c)
	return c
}

func runDiff(c *cobra.Command, a *app, o *diffOptions, name string) error {
	if err := notEmpty(c, "part"); err != nil {
		return err
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	return service.Work.Diff(c.Context(), name, o.ReviewOptions, func(sessions []*review.Session) (bool, error) {
		if o.format.json(a) {
			reviews := make([]review.Review, len(sessions))
			for i, session := range sessions {
				reviews[i] = session.Review
			}
			return false, term.JSON(a.out, reviews)
		}
		return !o.stat, a.page(o.noPager, func(out io.Writer, colour bool) error {
			return printReviews(c.Context(), paper{out, colour}, sessions, o.stat)
		})
	})
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
