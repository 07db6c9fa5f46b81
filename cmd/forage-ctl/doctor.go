package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/term"
)

func newDoctor(a *app) *cobra.Command {
	var prove bool
	var f format
	c := a.unnamed("doctor", a.service, func(c *cobra.Command, s *sandbox.Service) error {
		if prove {
			ctx := c.Context()
			proofs, err := s.Prove(ctx)
			if err != nil {
				return err
			}
			table := newTable("RUNTIME", "GROUP", "WALL", "HELD", "DETAIL")
			for _, proof := range proofs {
				if proof.Skipped != "" {
					table.Row(proof.Runtime, "-", "-", "-", proof.Skipped)
				}
				for _, result := range proof.Results {
					table.Row(proof.Runtime, result.Group, result.Wall, works(result.Held, true), result.Detail)
				}
				for _, row := range proof.Rows {
					if row.Held && !row.Claimed {
						table.Row(proof.Runtime, "rows", row.Name, "yes", "it holds, though the runtime does not claim it")
					}
				}
			}
			return firstError(f.show(a, proofs, table.printer(a)), breached(proofs))
		}
		reports, err := s.Doctor(c.Context())
		if err != nil {
			return err
		}
		return firstError(f.show(a, reports, func() error { return printReports(a, reports) }), broken(reports))
	})
	c.Flags().BoolVar(&prove, "prove", false, "start sandboxes and attack them from inside")
	f.add(c)
	return c
}

func printReports(a *app, reports []sandbox.Report) error {
	table := newTable("ABOUT", "WHAT", "WORKS", "DETAIL")
	for _, report := range reports {
		for _, finding := range report.Findings {
			table.Row(report.About, finding.Name, works(finding.OK, finding.Required && !report.Spare), finding.Detail)
		}
	}
	if err := table.print(a); err != nil {
		return err
	}
	var fixes []string
	mended := make(map[string]string) // by fix: what it mends, a line each
	for _, report := range reports {
		for _, finding := range report.Findings {
			if finding.OK || finding.Fix == "" {
				continue
			}
			if mended[finding.Fix] == "" {
				fixes = append(fixes, finding.Fix)
			}
			mended[finding.Fix] += fmt.Sprintf("%s: %s\n", report.About, term.Escape(finding.Name))
		}
	}
	for _, fix := range fixes {
		if err := a.write(fmt.Sprintf("\n%s  fix: %s\n", mended[fix], term.Escape(fix))); err != nil {
			return err
		}
	}
	return a.write("\n" + verdict(reports) + "\n")
}

// verdict is what the findings come to, and what to do first.
func verdict(reports []sandbox.Report) string {
	var first, lacks string
	for _, report := range reports {
		for _, f := range report.Findings {
			switch todo := term.Escape(cmp.Or(f.Fix, f.Detail)); {
			case f.OK:
			case f.Required && !report.Spare && first == "":
				first = fmt.Sprintf("%s: %s", term.Escape(f.Name), todo)
			case f.Name == "tmux":
				lacks = "; for 'forage-ctl up', " + todo
			}
		}
	}
	if first != "" {
		return "not ready. Do this first: " + first
	}
	return "ready: try 'forage-ctl run -- bash' in a project's folder" + lacks
}

// works is a finding in a word: what is not required may be missing.
func works(ok, required bool) string {
	switch {
	case ok:
		return "yes"
	case required:
		return "NO"
	default:
		return "no"
	}
}

// broken is an error when something that nothing works without does not work.
func broken(reports []sandbox.Report) error {
	for _, report := range reports {
		if !report.Works() && !report.Spare {
			return forage.Errorf(forage.ErrUnsupported, "%s: something that is required does not work here", report.About)
		}
	}
	return nil
}

// breached is an error when a wall did not hold.
func breached(proofs []sandbox.Proof) error {
	for _, proof := range proofs {
		if wall := proof.Broken(); wall != "" {
			return fmt.Errorf("%s: a wall did not hold: %s", proof.Runtime, wall)
		}
	}
	return nil
}
