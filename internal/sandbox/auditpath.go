package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage"
)

// AuditNames are the sandboxes that have an audit log, with the runs that have ended. The error
// names the records that can't be read.
func (s *Service) AuditNames() ([]string, error) {
	_, broken := s.Host.Readable()
	const any = "any"
	dir, file := filepath.Split(s.Host.Places.Of(any).Audit)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, broken
	}
	var names []string
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), strings.TrimPrefix(file, any))
		if ok && forage.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, errors.Join(broken, err)
}

// AuditPath is where the audit log of a sandbox is, or of a run that has ended; it is an
// fs.ErrNotExist where nothing was started yet.
func (s *Service) AuditPath(name string) (string, error) {
	path := s.Host.Places.Of(name).Audit
	_, err := os.Stat(path)
	if err == nil {
		return path, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the audit log: %w", err)
	}
	if _, err := s.Host.Store.Load(name); err != nil {
		return "", err
	}
	return "", forage.Errorf(fs.ErrNotExist, "sandbox %q has no audit log: it has not been started yet", name)
}
