package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"forage/internal/reviewscreen"
	"forage/internal/sandbox"
	"forage/internal/sandbox/work"
	"forage/internal/term"
	"forage/internal/workspace/review"
)

// screenReview is a review on the screen.
type screenReview struct {
	service  *sandbox.Service
	name     string
	options  work.ReviewOptions
	sessions []*review.Session
	files    []reviewscreen.File
	of       []int // the session of each file

	mu    sync.Mutex
	notes []string                // what was said meanwhile: stderr is the screen
	seen  map[int][]review.Change // by session, not remembered yet
}

// reviewOnScreen shows what was done, and after something was applied what is left.
func (a *app) reviewOnScreen(ctx context.Context, s *sandbox.Service, name string, o work.ReviewOptions) error {
	for again := true; again; {
		r := &screenReview{service: s, name: name, options: o, seen: map[int][]review.Change{}}
		s.Work.Notify = r.note
		s.Work.Progress = func(string) func() { return func() {} }
		err := s.Work.Diff(ctx, name, o, func(sessions []*review.Session) (_ bool, err error) {
			r.sessions = sessions
			r.list()
			again, err = reviewscreen.Run(ctx, reviewscreen.Options{
				In: a.in, Out: a.out.(*os.File), Title: name, Files: r.files, Summary: r.summary(),
				Colour: os.Getenv("NO_COLOR") == "", Apply: r.apply,
				Diff: func(ctx context.Context, file int) (review.FileDiff, error) {
					return r.sessions[r.of[file]].FileDiff(ctx, *r.files[file].Change)
				},
				Shown: func(file int) {
					r.mu.Lock()
					defer r.mu.Unlock()
					r.seen[r.of[file]] = append(r.seen[r.of[file]], *r.files[file].Change)
				},
			})
			return false, errors.Join(err, r.remember(context.WithoutCancel(ctx)))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *screenReview) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// said takes the notes.
func (r *screenReview) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// remember notes what was on the screen as shown.
func (r *screenReview) remember(ctx context.Context) error {
	r.mu.Lock()
	seen := r.seen
	r.seen = map[int][]review.Change{}
	r.mu.Unlock()
	var failed []error
	for i, changes := range seen {
		failed = append(failed, r.sessions[i].MarkFiles(ctx, changes))
	}
	return errors.Join(failed...)
}

// list lists the files: first what tools of the host execute, worst first.
func (r *screenReview) list() {
	add := func(session int, f reviewscreen.File) {
		if len(r.sessions) > 1 {
			f.Name = r.sessions[session].Part + ": " + f.Name
		}
		r.files, r.of = append(r.files, f), append(r.of, session)
	}
	listed := map[*review.Change]bool{}
	for i, s := range r.sessions {
		for _, finding := range s.Findings {
			f := reviewscreen.File{Name: finding.Path, Why: finding.Why, First: finding.Kind.Immediate()}
			if at := slices.IndexFunc(s.Changes, func(c review.Change) bool { return c.Path == finding.Path }); at >= 0 {
				f.Change = &s.Changes[at]
			}
			if f.Change == nil || !listed[f.Change] {
				add(i, f)
			}
			listed[f.Change] = true
		}
	}
	for i, s := range r.sessions {
		for at := range s.Changes {
			if c := &s.Changes[at]; !listed[c] {
				add(i, reviewscreen.File{Name: c.Path, Change: c})
			}
		}
	}
}

// summary is what is to be known beside the files.
func (r *screenReview) summary() []string {
	lines := r.said()
	for _, s := range r.sessions {
		if len(r.sessions) > 1 {
			lines = append(lines, "", "== "+s.Part+" ==")
		}
		lines = append(lines, s.Notes...)
		for _, left := range s.Left {
			lines = append(lines, "left out: "+left.Path+": "+left.Why)
		}
		if s.CommitsCount > 0 {
			lines = append(lines, fmt.Sprintf("%s on %s", term.Count(s.CommitsCount, "commit"), s.Branch))
		}
		for _, commit := range s.Commits {
			lines = append(lines, fmt.Sprintf("  %.10s %s", commit.ID, commit.Subject))
		}
		if len(s.Uncommitted) > 0 {
			lines = append(lines, term.Count(len(s.Uncommitted), "file")+" not committed")
		}
	}
	return lines
}

// apply applies what was chosen, as it was shown.
func (r *screenReview) apply(ctx context.Context, chosen []reviewscreen.Choice, all, plain, rehearse bool) ([]string, error) {
	picks := map[string]*review.Pick{}
	for _, c := range chosen {
		s := r.sessions[r.of[c.File]]
		pick := cmp.Or(picks[s.Part], &review.Pick{})
		pick.Files = append(pick.Files, review.Picked{Change: *r.files[c.File].Change, Hunks: c.Hunks})
		picks[s.Part] = pick
	}
	if all {
		for _, s := range r.sessions {
			pick := s.All()
			picks[s.Part] = &pick
		}
	}
	if err := r.remember(ctx); err != nil {
		return nil, err
	}
	r.said() // of before
	done, err := r.service.Work.Apply(ctx, r.name, work.ApplyOptions{ReviewOptions: r.options, Picks: picks, NoCommit: plain, DryRun: rehearse})
	var lines []string
	for _, d := range done {
		lines = append(lines, appliedLines(d, rehearse, len(done) > 1)...)
		if rehearse {
			left := slices.ContainsFunc(r.sessions, func(s *review.Session) bool { return s.Part == d.Part && len(s.Uncommitted) > 0 })
			lines = append(lines, becomes(d, all, left && !plain)...)
		}
		lines = append(lines, d.Notes...)
	}
	return append(lines, r.said()...), err
}

// becomes says how what is applied arrives. more: beside the agent's commits one is made of the rest.
func becomes(d review.Applied, all, more bool) (lines []string) {
	switch {
	case d.After == d.Before:
	case all && d.Commits > 0:
		text := "commits of the agent that come as they are: " + strconv.Itoa(d.Commits)
		if more {
			text += "; what is not committed becomes one more"
		}
		lines = append(lines, text)
	default:
		lines = append(lines, "it becomes one commit")
	}
	if d.Changes() && d.Folder != "" {
		lines = append(lines, "the files of "+term.Escape(d.Folder)+" follow; before, a snapshot of the workspace is made")
	}
	return lines
}
