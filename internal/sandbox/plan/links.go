package plan

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"forage"
	"forage/internal/rootfs"
)

// staysWithin refuses a path that leads into the workspace of a sandbox and, by
// a link there, out of it again: the agent may have made that link. resolved is
// where path led when it was looked at; that is what is mounted.
func (h *Host) StaysWithin(path, resolved string) error {
	path = filepath.Clean(path)
	if path == resolved {
		return nil // no link is on the way
	}
	records, _, err := h.Store.List()
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

// tellLink says where a path of the user's leads by a link of the user's own. A sandbox that is on
// no record any more may have made it; in the home folder itself none could.
func (p *planner) tellLink(path, resolved string) {
	for part := filepath.Clean(path); part != "/"; part = filepath.Dir(part) {
		info, err := os.Lstat(part)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 || filepath.Dir(part) == p.host.Caller.Home {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() {
			p.note("%s is a link: what is shown is %s", part, resolved)
			return
		}
	}
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
