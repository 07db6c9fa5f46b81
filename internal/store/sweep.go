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

// halfWritten is how old a temporary file is that has no writer any more.
const halfWritten = time.Minute

// unfinished are the files that are about to become another one in the state folder, by what makes
// them: WriteFile, and what keeps the key that always works and what was used of the network.
var unfinished = [...]string{
	"sandboxes/" + temporary, "sandboxes/.*.usage.json*", ".id_ed25519*",
	"repositories/" + temporary, "repositories/.recovery/" + temporary, "quarantine/" + temporary,
}

// Sweep removes what killed processes left in the store: locks that no process holds, and files
// that were never finished. It returns the names of the files; with dryRun all but locks stay.
func (s *Store) Sweep(dryRun bool) ([]string, error) {
	swept, err := s.sweepLocks()
	errs := []error{err}
	var matches []string
	for _, pattern := range unfinished {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		matches, errs = append(matches, found...), append(errs, err)
	}
	for _, path := range matches {
		info, err := os.Lstat(path)
		if err != nil || s.now().Sub(info.ModTime()) < halfWritten {
			continue // renamed meanwhile, or about to be
		}
		swept = append(swept, filepath.Base(path))
		if !dryRun {
			errs = append(errs, os.RemoveAll(path)) // or another process has
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
