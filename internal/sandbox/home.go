package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// The home of a sandbox that stays is a folder of the state folder. Everything in it was written inside: on the host it is
// mounted and removed, and nothing in it is ever opened.

// home decides whether the home is kept.
func (p *planner) home(context.Context) error {
	if p.opts.Ephemeral || p.chosen.EphemeralHome {
		return nil
	}
	if p.plan.Spec.Limits.DiskMax > 0 {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "diskMax can't bound a home that is kept on disk"),
			`add home = "ephemeral" to the template, or leave out diskMax`)
	}
	p.plan.Spec.KeptHome = p.service.homeOf(p.plan.Name)
	return nil
}

func (s *Service) homes() string { return filepath.Join(workspace.Resolved(s.Places.State), "homes") }

func (s *Service) homeOf(name string) string { return filepath.Join(s.homes(), name) }

// makeHome makes the home that is kept, unless it is there.
func makeHome(spec forage.Spec) error {
	if spec.KeptHome == "" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(spec.KeptHome), 0o700)
	if err == nil {
		err = os.Mkdir(spec.KeptHome, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil && os.Geteuid() == 0 {
		err = os.Lchown(spec.KeptHome, spec.Identity.HostUID, spec.Identity.HostGID)
	}
	if err != nil {
		return forage.WithHint(fmt.Errorf("making the home: %w", err), forage.HintWritableState)
	}
	return nil
}

// removeHome removes the home of a sandbox that does not run. It is moved first: a sandbox never starts with half of one.
func (s *Service) removeHome(name string) error {
	gone := filepath.Join(s.homes(), removedHome+name+"."+rand.Text())
	err := os.Rename(s.homeOf(name), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = gitrepo.RemoveTree(gone)
	}
	if err != nil {
		return fmt.Errorf("removing the home of %s: %w", name, err)
	}
	return nil
}

// removedHome begins the name of a home that is being removed.
const removedHome = "."

// forget removes the last of a sandbox: its home and its record.
func (s *Service) forget(name string, keepAudit bool) error {
	if err := s.removeHome(name); err != nil {
		return err
	}
	return s.Store.Delete(name, keepAudit)
}

// lostHomes removes the homes of sandboxes that are on no record, and what is left of removals that were killed.
func (c *collector) lostHomes() error {
	entries, err := os.ReadDir(c.homes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		path := filepath.Join(c.homes(), entry.Name())
		name, removed := strings.CutPrefix(entry.Name(), removedHome)
		name, _, _ = strings.Cut(name, ".")
		if forage.CheckName(name) != nil {
			continue // not ours
		}
		errs = append(errs, c.unlessBusy(name, func() error {
			if !removed && c.onRecord(name) {
				return nil
			}
			return c.do(name, "removed its home "+path, func() error { return gitrepo.RemoveTree(path) })
		}))
	}
	return errors.Join(errs...)
}
