package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/hazard"
)

// Hazard is something in a workspace that tools of the host would execute, new or changed since the sandbox was made.
type Hazard struct {
	Part string `json:"part,omitempty"` // of a composed workspace; "" is the main one
	hazard.Finding
	// Immediate: it is met on cd, on opening the folder or on git status.
	Immediate bool `json:"immediate,omitempty"`
}

// baselines are what there was in each part of a workspace, by the part's name.
type baselines map[string]hazard.Baseline

// protectedPaths are those that the agent may not change: at the root of each writable part what host tools execute, and
// the folders of the tree in which git is configured to look for hooks.
func protectedPaths(ctx context.Context, plan forage.Plan) []string {
	var list []string
	for _, w := range plan.Workspaces() {
		if w.ReadOnly {
			continue
		}
		for _, name := range slices.Concat(hazard.Protected, hooksOf(ctx, w)) {
			for _, name := range throughLinks(w.Path, name) {
				list = append(list, path.Join(w.Target, name))
			}
		}
		if w.Mode == forage.WorkspaceJJ { // one that leads nowhere, so that git looks no further: see package jj
			list = append(list, path.Join(w.Target, ".git"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// throughLinks are name and, where it is a link, what it leads to in the same tree, and so on: to change that is to change name.
func throughLinks(root, name string) []string {
	list := []string{name}
	for range 10 {
		target, err := os.Readlink(filepath.Join(root, name))
		if err != nil || filepath.IsAbs(target) {
			break
		}
		name = filepath.Join(filepath.Dir(name), target)
		if !filepath.IsLocal(name) || name == "." {
			break
		}
		list = append(list, name)
	}
	return list
}

// hooksOf are the folders of a workspace's tree in which the host's git looks for hooks.
func hooksOf(ctx context.Context, w forage.Workspace) []string {
	if w.Repository == nil || w.Repository.Store == "" {
		return nil
	}
	configured := []string{w.Repository.Hooks}
	// One that has moved or is gone: what can be said of the rest is said.
	if repository, err := gitrepo.Open(ctx, w.Repository.Store); err == nil {
		values := repository.Config["core.hookspath"]
		configured = append(configured, values[max(len(values)-1, 0):]...)
	}
	var folders []string
	for _, dir := range configured {
		if dir = hooksBelow(w.Path, dir); dir != "" && !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	return folders
}

// hooksBelow is a folder of hooks relative to the tree at root; "" if it is none of its folders.
func hooksBelow(root, dir string) string {
	if dir == "" {
		return ""
	}
	// Husky's are in .husky/_ and run those of the same name in .husky.
	dir = strings.TrimSuffix(path.Clean(dir), "/_")
	if path.IsAbs(dir) {
		below, err := filepath.Rel(root, workspace.Resolved(dir)) // as git finds it, through links
		if err != nil {
			return ""
		}
		dir = below
	}
	if dir == "." || dir == ".." || strings.HasPrefix(dir, "../") || dir == ".git" || strings.HasPrefix(dir, ".git/") || strings.HasPrefix(dir, "~") {
		return ""
	}
	return dir
}

// look looks through all parts of a workspace before anything runs in it.
func (s *Service) look(ctx context.Context, plan forage.Plan) (baselines, error) {
	before := baselines{}
	for _, w := range plan.Workspaces() {
		if w.ReadOnly {
			continue
		}
		found, err := hazard.Take(w.Path, hooksOf(ctx, w)...)
		if err != nil {
			return nil, err
		}
		before[w.Name] = found
	}
	return before, nil
}

// keepLook keeps what look found beside the sandbox's record.
func (s *Service) keepLook(ctx context.Context, plan forage.Plan) error {
	before, err := s.look(ctx, plan)
	if err != nil {
		return err
	}
	return writeJSON(s.lookFile(plan.Name), before)
}

func (s *Service) lookFile(name string) string {
	return filepath.Join(s.Places.Of(name).Generated, "hazards.json")
}

// looked is what keepLook kept. Without it everything is new.
func (s *Service) looked(name string) (baselines, error) {
	before := baselines{}
	err := readJSON(s.lookFile(name), &before)
	if errors.Is(err, fs.ErrNotExist) {
		return before, nil
	}
	return before, err
}

// Hazards are what tools of the host would execute in a sandbox's workspace, new or changed since it was made, the worst first.
func (s *Service) Hazards(ctx context.Context, name string) ([]Hazard, error) {
	record, err := s.Store.Load(name)
	if err != nil {
		return nil, err
	}
	return s.hazardsOf(ctx, record)
}

func (s *Service) hazardsOf(ctx context.Context, record store.Record) ([]Hazard, error) {
	if record.Phase == forage.PhaseCreating || record.Plan.Ephemeral {
		return nil, nil
	}
	before, err := s.looked(record.Name)
	if err != nil {
		return nil, err
	}
	return hazards(ctx, record.Plan, before)
}

// hazards compares the parts of a workspace that are of those modes, else all, with what was there before.
func hazards(ctx context.Context, plan forage.Plan, before baselines, modes ...forage.WorkspaceMode) ([]Hazard, error) {
	var all []Hazard
	var failed []error
	for i, w := range plan.Workspaces() {
		if w.ReadOnly || len(modes) > 0 && !slices.Contains(modes, w.Mode) {
			continue
		}
		found, err := hazard.Scan(w.Path, before[w.Name], hooksOf(ctx, w)...)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the workspace is gone, and so is what could be executed
		}
		failed = append(failed, err)
		part := w.Name
		if i == 0 {
			part = ""
		}
		for _, f := range found {
			all = append(all, Hazard{part, f, f.Kind.Immediate()})
		}
	}
	return all, errors.Join(failed...)
}

// looksPatience bounds how long ps waits for looks through workspaces, all together.
const looksPatience = 3 * time.Second

// CountHazards adds to each status how many hazards there are, as far as that can be found out in time.
func (s *Service) CountHazards(ctx context.Context, statuses []Status) {
	type look struct{ at, count int }
	done := make(chan look, len(statuses))
	places := make(chan struct{}, 2) // more only slow each other down
	for i, status := range statuses {
		statuses[i].HazardCount = -1
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			found, err := s.hazardsOf(ctx, status.Record)
			if err != nil {
				done <- look{i, -1}
				return
			}
			done <- look{i, len(found)}
		}()
	}
	timer := time.NewTimer(looksPatience)
	defer timer.Stop()
	for range statuses {
		select {
		case l := <-done:
			statuses[l.at].HazardCount = l.count
		case <-timer.C:
			return
		}
	}
}

// maxTold is how many hazards the end of a run names.
const maxTold = 10

// tellCount says that there are hazards which are met without the user's doing anything.
func (s *Service) tellCount(ctx context.Context, record store.Record) {
	found, err := s.hazardsOf(ctx, record)
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

// tellLast is tellHazards for a sandbox that is removed.
func (s *Service) tellLast(ctx context.Context, record store.Record) {
	before, err := s.looked(record.Name)
	if err != nil {
		s.notify(fmt.Sprintf("what was in the workspace before is not known: %v", err))
	}
	s.tellHazards(ctx, record.Plan, before)
}

// tellHazards says at the end of a run what tools of the host would execute of what it left, before they do. What
// is needed to move it aside outlives the run.
//
// It is about the user's own folders: a tree of ours is about to go.
func (s *Service) tellHazards(ctx context.Context, plan forage.Plan, before baselines) {
	found, err := hazards(ctx, plan, before, forage.WorkspaceDirect)
	if err != nil {
		s.notify(fmt.Sprintf("the workspace could not be looked through for what host tools execute: %v", err))
	}
	if len(found) == 0 {
		return
	}
	for _, h := range found[:min(len(found), maxTold)] {
		s.notify(HazardLine(h))
	}
	if more := len(found) - maxTold; more > 0 {
		s.notify(fmt.Sprintf("%d more files that host tools would execute are new or changed", more))
	}
	if err := s.keepEnded(plan, before); err != nil {
		s.notify(fmt.Sprintf("what quarantine needs to know could not be kept: %v", err))
		return
	}
	s.notify("`forage-ctl quarantine " + plan.Name + "` moves aside what is executed on the way; --all all of it")
}

// HazardLine is a hazard in one line.
func HazardLine(h Hazard) string {
	file := h.Path
	if h.Part != "" {
		file += " (in " + h.Part + ")"
	}
	return file + ": " + h.Why
}
