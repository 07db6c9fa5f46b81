package plan

import (
	"fmt"
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
			if leadsInto(path, w.Path) {
				return forage.WithHint(
					forage.Errorf(forage.ErrRefused, "%s leads out of the workspace of sandbox %s, by a link that its agent can make", path, record.Name),
					"name the folder that you mean: "+resolved)
			}
		}
	}
	return nil
}

// confirmLink asks whether to show where a path of the user's leads by a link that is the user's
// own, and refuses it if there is no one to ask: a sandbox that is on no record any more may have
// made the link. In the home folder itself none could. asked says that a flag names the path; what
// else has it is the user's configuration, or the current folder.
func (p *planner) confirmLink(path, resolved string, asked bool) error {
	for part := filepath.Clean(path); part != "/"; part = filepath.Dir(part) {
		info, err := os.Lstat(part)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 || filepath.Dir(part) == p.host.Caller.Home {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
			continue
		}
		if !asked {
			p.note("%s is a link: what is shown is %s", part, resolved)
			return nil
		}
		if p.opts.Confirm != nil && p.opts.Confirm(fmt.Sprintf("%s is a link, which a sandbox may have made: show %s inside?", part, resolved)) {
			return nil
		}
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s is a link that leads to %s, and a sandbox may have made it", part, resolved),
			"if that is the folder that you mean, name it: "+resolved)
	}
	return nil
}

// leadsInto says whether a place on the way to path is in dir.
func leadsInto(path, dir string) bool {
	for at := range rootfs.Way(path) {
		if rootfs.Within(at, dir) {
			return true
		}
	}
	return rootfs.Within(filepath.Clean(path), dir)
}
