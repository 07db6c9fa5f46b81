package sandbox

import (
	"context"
	"fmt"

	"forage"
	"forage/internal/store"
)

// maxTold is how many findings the end of a run names.
const maxTold = 10

// tellCount says that there are findings which are met without the user's doing anything.
func (s *Service) tellCount(ctx context.Context, record store.Record) {
	found, err := s.findingsOf(ctx, record)
	if err != nil {
		s.notify(fmt.Sprintf("the workspace could not be looked through for what host tools execute: %v", err))
	}
	count := 0
	for _, h := range found {
		if h.Immediate {
			count++
		}
	}
	if count > 0 {
		s.notify(fmt.Sprintf("tools of the host execute what is new or changed in the workspace (%d): `forage-ctl status %s` names it", count, record.Name))
	}
}

// tellLast is tellFindings for a sandbox that is removed.
func (s *Service) tellLast(ctx context.Context, record store.Record) {
	before, err := s.looked(record.Name)
	if err != nil {
		s.notify(fmt.Sprintf("what was in the workspace before is not known: %v", err))
	}
	s.tellFindings(ctx, record.Plan, before)
}

// tellFindings says at the end of a run what tools of the host would execute of what it left,
// before they do. What is needed to move it aside outlives the run.
//
// It is about the user's own folders: a tree of ours is about to go.
func (s *Service) tellFindings(ctx context.Context, plan forage.Plan, before baselines) {
	found, err := s.findings(ctx, plan, before, forage.WorkspaceDirect)
	if err != nil {
		s.notify(fmt.Sprintf("the workspace could not be looked through for what host tools execute: %v", err))
	}
	if len(found) == 0 {
		return
	}
	for _, h := range found[:min(len(found), maxTold)] {
		s.notify(findingLine(h))
	}
	if more := len(found) - maxTold; more > 0 {
		s.notify(fmt.Sprintf("%d more files that host tools would execute are new or changed", more))
	}
	if err := s.keepEnded(plan, before); err != nil {
		s.notify(fmt.Sprintf("what quarantine needs to know could not be kept: %v", err))
		return
	}
	s.notify("`forage-ctl quarantine " + plan.Name + "` moves aside what runs unasked (on cd, in an editor, by git); with --all, everything")
}

// findingLine is a finding in one line.
func findingLine(h Finding) string {
	file := h.Path
	if h.Part != "" {
		file += " (in " + h.Part + ")"
	}
	return file + ": " + h.Why
}
