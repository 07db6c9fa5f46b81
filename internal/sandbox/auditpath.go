package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"forage"
)

// AuditPath is where the audit log of a sandbox is, or of a run that has ended; it is an fs.ErrNotExist where nothing was started yet.
func (s *Service) AuditPath(name string) (string, error) {
	path := s.Places.Of(name).Audit
	_, err := os.Stat(path)
	if err == nil {
		return path, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the audit log: %w", err)
	}
	if _, err := s.Store.Load(name); err != nil {
		return "", err
	}
	return "", forage.Errorf(fs.ErrNotExist, "sandbox %q has no audit log: it has not been started yet", name)
}
