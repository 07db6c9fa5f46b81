package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"forage/internal/hostile"
	"forage/internal/workspace"
)

// Kept is how long snapshots that nobody asked for stay, and those of a sandbox that is gone.
const Kept = 30 * 24 * time.Hour

// goneName is an empty file in a snapshot: since when its sandbox is not there.
const goneName = "gone"

// Collection is what Collect goes by.
type Collection struct {
	Exists func(sandbox string, of time.Time) bool
	Now    time.Time
	DryRun bool
}

// Collect removes automatic snapshots that are older than Kept, those of sandboxes that have been gone for
// longer, and what killed processes left. What it removed, or would remove, is said in words.
func (s Store) Collect(c Collection) (said []string, err error) {
	list, err := s.List("")
	errs := []error{err}
	for _, one := range list {
		if !s.over(one, c) {
			continue
		}
		said = append(said, fmt.Sprintf("removed the snapshot %s of %s", one.ID, one.Sandbox))
		if !c.DryRun {
			errs = append(errs, s.Delete(one.Sandbox, one.ID))
		}
	}
	abandoned, err := workspace.AbandonedScratch(filepath.Join(s.Dir, scratchName))
	errs = append(errs, err)
	for _, dir := range abandoned {
		if !c.DryRun {
			errs = append(errs, hostile.RemoveAll(dir))
		}
	}
	return said, errors.Join(errs...)
}

// over says whether a snapshot's time is over. The first time that its sandbox is not there is put on
// record: from then on it is kept for Kept.
func (s Store) over(one Snapshot, c Collection) bool {
	if c.Exists(one.Sandbox, one.Of) {
		return one.Automatic && c.Now.Sub(one.Made) > Kept
	}
	marker := filepath.Join(s.path(one.Sandbox, one.ID), goneName)
	if info, err := os.Lstat(marker); err == nil {
		return c.Now.Sub(info.ModTime()) > Kept && c.Now.Sub(one.Made) > Kept
	}
	if !c.DryRun && os.WriteFile(marker, nil, 0o600) == nil {
		os.Chtimes(marker, c.Now, c.Now) // else it is kept longer
	}
	return false
}
