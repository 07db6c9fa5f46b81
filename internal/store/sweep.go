package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
)

// halfWritten is how old a temporary file is that nobody can still be writing.
const halfWritten = time.Minute

// Sweep removes what killed processes left in the store: locks that nobody
// holds, and records that were never finished. It returns the names of the
// files; with dryRun records stay.
func (s *Store) Sweep(dryRun bool) ([]string, error) {
	swept, err := s.sweepLocks()
	matches, globErr := filepath.Glob(filepath.Join(s.sandboxes(), temporary))
	errs := []error{err, globErr}
	for _, path := range matches {
		info, err := os.Lstat(path)
		if err != nil || s.now().Sub(info.ModTime()) < halfWritten {
			continue // renamed meanwhile, or about to be
		}
		swept = append(swept, filepath.Base(path))
		if !dryRun {
			errs = append(errs, os.Remove(path))
		}
	}
	return swept, errors.Join(errs...)
}

func (s *Store) sweepLocks() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "locks"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var swept []string
	errs := []error{err}
	for _, entry := range entries {
		name, isLock := strings.CutSuffix(entry.Name(), ".lock")
		if !isLock || forage.CheckName(name) != nil {
			continue // the store's own is taken by the next command
		}
		unlock, free, err := s.TryLock(name)
		if err != nil || !free {
			errs = append(errs, err)
			continue
		}
		swept = append(swept, entry.Name())
		unlock() // which removes it; that is harmless in a rehearsal too
	}
	return swept, errors.Join(errs...)
}
