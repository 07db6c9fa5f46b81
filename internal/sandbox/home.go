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
	"syscall"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// The home of a sandbox that stays is a folder of the state folder. Everything in it was written
// inside: on the host it is mounted and removed, and nothing in it is ever opened.

// home decides whether the home is kept.
func (p *planner) home(context.Context) error {
	if p.plan.Ephemeral || p.chosen.EphemeralHome {
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
	return makeOwned(spec.KeptHome, spec.Identity)
}

// makeOwned makes a folder of the agent's below the state folder, unless it is there.
func makeOwned(path string, who forage.Identity) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if info, statErr := os.Lstat(path); err == nil && statErr == nil && info.Sys().(*syscall.Stat_t).Uid == 0 { // root made it
		err = os.Lchown(path, who.HostUID, who.HostGID)
	}
	if err != nil {
		return forage.WithHint(fmt.Errorf("making %s: %w", path, err), forage.HintWritableState)
	}
	return nil
}

// removeHome removes the home of a sandbox that does not run. It is moved first: a sandbox never
// starts with half of one.
func (s *Service) removeHome(name string) error {
	if err := removeOwned(s.homeOf(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the home of %s: %w", name, err)
	}
	return nil
}

// removeOwned removes a folder that makeOwned has made. It is fs.ErrNotExist if there is none.
func removeOwned(path string) error {
	gone := filepath.Join(filepath.Dir(path), beingRemoved+filepath.Base(path)+"."+rand.Text())
	if err := os.Rename(path, gone); err != nil {
		return err
	}
	return hostile.RemoveAll(gone)
}

// beingRemoved begins the name of a home or volume that is being removed.
const beingRemoved = "."

// forget removes the last of a sandbox: its home and its record.
func (s *Service) forget(name string, keepAudit bool) error {
	if err := s.removeHome(name); err != nil {
		return err
	}
	return s.Store.Delete(name, keepAudit)
}

// lostHomes removes the homes of sandboxes that are on no record, and what is left of removals of
// homes and volumes that were killed.
func (c *collector) lostHomes() error {
	homes, _ := filepath.Glob(filepath.Join(c.homes(), "*")) // the pattern is right
	removed, _ := filepath.Glob(filepath.Join(c.volumes(), beingRemoved+"*"))
	var errs []error
	for _, path := range append(homes, removed...) {
		name, removed := strings.CutPrefix(filepath.Base(path), beingRemoved)
		name, _, _ = strings.Cut(name, ".")
		if forage.CheckName(name) != nil {
			continue // not ours
		}
		errs = append(errs, c.unlessBusy(name, func() error {
			if !removed && c.onRecord(name) {
				return nil
			}
			return c.do(name, "removed "+path, func() error { return hostile.RemoveAll(path) })
		}))
	}
	return errors.Join(errs...)
}
