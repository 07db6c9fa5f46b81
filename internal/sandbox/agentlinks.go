package sandbox

import (
	"path/filepath"

	"forage"
	"forage/internal/rootfs"
)

// staysWithin refuses a path that leads into the workspace of a sandbox and, by
// a link there, out of it again: the agent may have made that link. resolved is
// where path led when it was looked at; that is what is mounted.
func (s *Service) staysWithin(path, resolved string) error {
	path = filepath.Clean(path)
	if path == resolved {
		return nil // no link is on the way
	}
	records, _, err := s.Store.List()
	if err != nil {
		return err
	}
	for _, record := range records {
		for _, w := range record.Plan.Workspaces() {
			if w.ReadOnly || rootfs.Within(resolved, w.Path) {
				continue
			}
			if through(path, w.Path) {
				return forage.WithHint(
					forage.Errorf(forage.ErrRefused, "%s leads out of the workspace of sandbox %s, by a link that its agent can make", path, record.Name),
					"name the folder that you mean: "+resolved)
			}
		}
	}
	return nil
}

// through says whether the way to path leads through the folder root.
func through(path, root string) bool {
	for part := path; part != "/"; part = filepath.Dir(part) {
		real, err := filepath.EvalSymlinks(filepath.Dir(part))
		if err == nil && rootfs.Within(real, root) {
			return true
		}
	}
	return false
}
