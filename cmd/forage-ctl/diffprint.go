package main

import (
	"context"
	"fmt"
	"io"

	"forage/internal/term"
	"forage/internal/workspace/review"
)

// paper is what a review is printed on.
type paper struct {
	out    io.Writer
	colour bool
}

// heading writes a line that stands out, where there is colour.
func (p paper) heading(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if p.colour {
		text = term.Bold + text + term.Plain
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

func printReview(ctx context.Context, p paper, s *review.Session, stat bool) error {
	for _, section := range [...]func(paper, review.Review) error{printFindings, printLeft, printCommits} {
		if err := section(p, s.Review); err != nil {
			return err
		}
	}
	for _, note := range s.Notes {
		fmt.Fprintf(p.out, "%s\n", term.Escape(note))
	}
	if stat {
		return printStat(p, s.Review)
	}
	if len(s.Uncommitted) > 0 {
		fmt.Fprintf(p.out, "Not committed: %s\n\n", term.Names(s.Uncommitted))
	}
	return s.Patch(ctx, p.out, p.colour)
}

// printFindings lists what tools of the host would execute: to be looked at first.
func printFindings(p paper, r review.Review) error {
	if len(r.Findings) == 0 {
		return nil
	}
	if err := p.heading("Look at these first: tools of the host execute them"); err != nil {
		return err
	}
	table := term.NewTable("", "PATH", "KIND", "WHY")
	for _, h := range r.Findings {
		mark := ""
		if h.Kind.Immediate() {
			mark = "!"
		}
		table.Row(mark, h.Path, string(h.Kind), h.Why)
	}
	if err := table.Write(p.out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.out)
	return err
}

// printLeft lists what is not shown below.
func printLeft(p paper, r review.Review) error {
	if len(r.Left) == 0 {
		return nil
	}
	if err := p.heading("Not part of this review, nor of what apply brings"); err != nil {
		return err
	}
	table := term.NewTable("PATH", "WHY")
	for _, left := range r.Left {
		table.Row(left.Path, left.Why)
	}
	if err := table.Write(p.out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.out)
	return err
}

func printCommits(p paper, r review.Review) error {
	if r.CommitsCount == 0 {
		return nil
	}
	if err := p.heading("%s on %s", term.Count(r.CommitsCount, "commit"), term.Escape(r.Branch)); err != nil {
		return err
	}
	if more := r.CommitsCount - len(r.Commits); more > 0 {
		fmt.Fprintf(p.out, "(%d older ones)\n", more)
	}
	for _, commit := range r.Commits {
		fmt.Fprintf(p.out, "%.10s %s\n", commit.ID, term.Escape(commit.Subject))
	}
	_, err := fmt.Fprintln(p.out)
	return err
}

// printStat lists the files with counts of lines.
func printStat(p paper, r review.Review) error {
	if len(r.Changes) == 0 {
		return nil
	}
	uncommitted := make(map[string]bool)
	for _, path := range r.Uncommitted {
		uncommitted[path] = true
	}
	table := term.NewTable("PATH", "STATUS", "LINES", "COMMITTED")
	added, removed := 0, 0
	for _, c := range r.Changes {
		path, lines, committed := c.Path, fmt.Sprintf("+%d -%d", c.Added, c.Removed), "yes"
		if c.OldPath != "" {
			path = c.OldPath + " => " + c.Path
		}
		if c.Binary {
			lines = "binary"
		}
		if uncommitted[c.Path] {
			committed = "no"
		}
		added, removed = added+c.Added, removed+c.Removed
		table.Row(path, string(c.Status), lines, committed)
	}
	if err := table.Write(p.out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "%s, +%d -%d\n", term.Count(len(r.Changes), "file"), added, removed)
	return err
}
