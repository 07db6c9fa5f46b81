package sandbox

import (
	"context"
	"os"

	"forage"
	"forage/internal/rootfs"
)

// otherWriters notes which running sandboxes write to the user's folder that this one is to write
// to: two agents undo each other's work.
func (p *planner) otherWriters(context.Context) error {
	w := p.plan.Workspace
	if w.Mode != forage.WorkspaceDirect || w.ReadOnly {
		return nil
	}
	// What runs has a run-time folder; the state folder also has what is left of every past run.
	entries, _ := os.ReadDir(p.service.Places.Runtime)
	for _, entry := range entries {
		record, err := p.service.Store.Load(entry.Name())
		if err != nil || record.Name == p.plan.Name { // what can't be read is said elsewhere
			continue
		}
		for _, m := range record.Plan.Spec.Mounts {
			if m.Writable && (rootfs.Within(m.Source, w.Path) || rootfs.Within(w.Path, m.Source)) && p.service.alive(record.Name) {
				p.note("the sandbox %s is running and writes to %s too; --git-worktree gives each a tree of its own", record.Name, m.Source)
				break
			}
		}
	}
	return nil
}
