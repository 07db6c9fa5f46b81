package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"forage"
	"forage/internal/rootfs"
	"forage/internal/store"
	"forage/internal/workspace"
	"slices"
)

// Fork is the plan of a second sandbox, and the parts of the first and of the second whose work the
// second takes over.
type Fork struct {
	Plan  forage.Plan
	Parts [][2]forage.Workspace
}

// Fork plans other as first was made, with the other's name wherever a plan depends on it. makeCopy
// makes a copy of the folder of a part.
func (h *Host) Fork(ctx context.Context, first store.Record, other string, makeCopy func(part, folder string) error) (Fork, error) {
	var fork Fork
	text, err := json.Marshal(first.Plan) // a copy that shares nothing
	if err == nil {
		err = json.Unmarshal(text, &fork.Plan)
	}
	if err != nil {
		return fork, err
	}
	plan := &fork.Plan
	plan.Name, plan.Spec.Name, plan.Network, plan.Parts = other, other, first.Network, nil
	plan.Spec.Network = plan.Network.Mode
	p := &planner{host: h, opts: Options{Name: other}, forbid: h.Config.Forbid, plan: *plan}
	for i, w := range first.Plan.Workspaces() {
		part := forkedPart(w, other)
		if part.Mode == forage.WorkspaceDirect && !part.ReadOnly {
			if err := makeCopy(cmp.Or(w.Name, workspace.Main), part.Repo); err != nil {
				return fork, err
			}
		}
		next, err := p.planPart(ctx, part, forage.Workspace{})
		if err != nil {
			return fork, err
		}
		if next.Mode != forage.WorkspaceDirect {
			next.Empty = true
			fork.Parts = append(fork.Parts, [2]forage.Workspace{w, next})
		}
		if i == 0 {
			p.plan.Workspace = next
		} else {
			p.plan.Parts = append(p.plan.Parts, next)
		}
	}
	if err := p.rename(ctx, first.Plan); err != nil {
		return fork, err
	}
	fork.Plan = p.plan
	return fork, errors.Join(p.keepsStores(), p.keepsRules())
}

// forkedPart is what the other asks for in the place of the part w. Two sandboxes can't write to
// one folder. So one that is mounted as it is becomes a clone, a jj workspace or a copy beside it,
// unless it is read-only.
func forkedPart(w forage.Workspace, other string) forage.Part {
	part := forage.Part{Name: w.Name, ContainerPath: w.Target, Repo: w.Source, Mode: w.Mode, Branch: w.Base, ReadOnly: w.ReadOnly}
	if w.Mode != forage.WorkspaceDirect {
		return part
	}
	part.Repo = w.Path
	switch {
	case w.ReadOnly:
		part.Branch = ""
	case w.Repository == nil:
		part.Repo, part.Branch = w.Path+"-"+other, ""
	case w.Repository.Kind == forage.RepositoryJJ:
		part.Mode = forage.WorkspaceJJ
	default:
		part.Mode = forage.WorkspaceClone
	}
	return part
}

// rename puts the plan's own name and folders in the place of first's.
func (p *planner) rename(ctx context.Context, first forage.Plan) error {
	spec, other := &p.plan.Spec, p.plan.Name
	old, err := composedMounts(first.Workspaces())
	if err != nil {
		return err
	}
	next, err := composedMounts(p.plan.Workspaces())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(spec.Mounts, func(m forage.Mount) bool { return slices.Contains(old, m) })
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m forage.Mount) bool { return slices.Contains(old, m) })
	spec.Mounts = slices.Insert(spec.Mounts, max(at, 0), next...)
	if len(spec.Protect) > 0 {
		if spec.Protect, err = p.host.protectedPaths(ctx, p.plan); err != nil {
			return err
		}
	}
	for _, file := range rootfs.Generated(other, spec.Identity, "") {
		i := slices.IndexFunc(spec.Files, func(have forage.File) bool { return have.Path == file.Path })
		if i >= 0 && (file.Path == "/etc/hostname" || file.Path == "/etc/hosts") {
			spec.Files[i] = file
		}
	}
	if spec.Env["FORAGE_SANDBOX"] == first.Name {
		spec.Env["FORAGE_SANDBOX"] = other
	}
	if spec.KeptHome != "" {
		spec.KeptHome = p.host.HomeOf(other)
	}
	if id := rootHost(first.Name); spec.Identity.HostUID == id {
		spec.Identity.HostUID, spec.Identity.HostGID = rootHost(other), rootHost(other)
	}
	return nil
}
