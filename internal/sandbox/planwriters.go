package sandbox

import (
	"context"

	"forage"
	"forage/internal/rootfs"
)

// otherWriters notes which running sandboxes write to the user's folder that this one is to write to: two agents undo each other's work.
func (p *planner) otherWriters(context.Context) error {
	w := p.plan.Workspace
	if w.Mode != forage.WorkspaceDirect || w.ReadOnly {
		return nil
	}
	records, _ := p.service.readable() // those that can't be read are said elsewhere
	for _, record := range records {
		if record.Name == p.plan.Name {
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
