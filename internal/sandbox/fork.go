package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// Fork makes a second sandbox, other, as the first was made, and from the state of its workspace:
// the commits, the files as they are, with what is ignored, and the private repository with index
// and stash. The first goes on as it is.
func (s *Service) Fork(ctx context.Context, name, other string) (Status, error) {
	if err := forage.CheckName(other); err != nil {
		return Status{}, err
	}
	if err := s.tidy(ctx, other); err != nil {
		return Status{}, err
	}
	if _, err := s.Store.Load(other); !errors.Is(err, forage.ErrNotFound) {
		return Status{}, cmp.Or(err, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a sandbox named %q is there already", other), "choose another name"))
	}
	f := &forking{Service: s, name: name, other: other}
	if err := s.locked(ctx, name, func(record store.Record) error { return f.keep(ctx, record) }); err != nil {
		return Status{}, err
	}
	plan, err := f.make(ctx)
	if err != nil {
		for _, folder := range f.copies {
			err = errors.Join(err, gitrepo.RemoveTree(folder))
		}
		return Status{}, err
	}
	if err := errors.Join(f.remember(), s.updateWorkspaces(ctx, plan)); err != nil {
		s.notify(err.Error())
	}
	record, err := s.Store.Load(other)
	return s.status(ctx, record), err
}

// forking is a call of Fork. The first is the sandbox that is forked, the other the one that is
// made.
type forking struct {
	*Service
	name, other string
	first       store.Record
	before      baselines // what there was in the first one's workspace when it was made
	state       snapshot.Snapshot
	parts       [][2]forage.Workspace // of the first, and of the other, which are not the same folder
	copies      []string              // folders of the user's that were made
}

// make makes the other.
func (f *forking) make(ctx context.Context) (forage.Plan, error) {
	plan, err := f.plan(ctx)
	if err != nil {
		return plan, err
	}
	f.tell(f.missingSecrets(plan))
	unlock, err := f.lock(ctx, f.other)
	if err != nil {
		return plan, err
	}
	defer unlock()
	return plan, f.createFilled(ctx, plan, f.fill)
}

// keep keeps the state that the other will have.
func (f *forking) keep(ctx context.Context, record store.Record) (err error) {
	if record.Plan.Ephemeral {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is a run, which goes when its command has ended", f.name), "use `forage-ctl up`")
	}
	if err := stillThere(record.Plan, "forked"); err != nil {
		return err
	}
	f.first = record
	if f.before, err = f.looked(f.name); err != nil {
		return err
	}
	request, err := f.snapshotOf(ctx, record.Plan, true)
	if err != nil {
		return err
	}
	request.Of, request.Label, request.Automatic = record.CreatedAt, "fork to "+f.other, true
	f.state, err = f.snapshots().Create(ctx, request)
	return err
}

// plan is the first one's plan, with the other's name wherever a plan depends on it.
func (f *forking) plan(ctx context.Context) (forage.Plan, error) {
	first := f.first.Plan
	var plan forage.Plan
	text, err := json.Marshal(first) // a copy that shares nothing
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		return plan, err
	}
	plan.Name, plan.Spec.Name, plan.Network, plan.Parts = f.other, f.other, f.first.Network, nil
	plan.Spec.Network = plan.Network.Mode
	p := &planner{service: f.Service, opts: Options{Name: f.other}, forbid: f.Config.Forbid, plan: plan}
	for i, w := range first.Workspaces() {
		part := f.part(w)
		if part.Mode == forage.WorkspaceDirect && !part.ReadOnly {
			if err := f.copyOf(part.Repo); err != nil {
				return plan, err
			}
		}
		next, err := p.planPart(ctx, part, forage.Workspace{})
		if err != nil {
			return plan, err
		}
		if i == 0 {
			p.plan.Workspace = next
		} else {
			p.plan.Parts = append(p.plan.Parts, next)
		}
		if next.Path != w.Path {
			f.parts = append(f.parts, [2]forage.Workspace{w, next})
		}
	}
	if err := f.rename(ctx, p); err != nil {
		return plan, err
	}
	return p.plan, errors.Join(p.keepsStores(), p.keepsRules())
}

// copyOf makes the folder for a copy of one of the user's, which is the user's too.
func (f *forking) copyOf(folder string) error {
	err := workspace.MakeFolder(folder)
	if err == nil {
		f.copies = append(f.copies, folder)
	}
	if errors.Is(err, fs.ErrExist) {
		err = forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is there already, where the copy would be made", folder), "move it away, or choose another name")
	}
	return err
}

// part is what the other asks for in the place of the part w. Two sandboxes can't write to one
// folder. So one that is mounted as it is becomes a clone, a jj workspace or a copy beside it,
// unless it is read-only.
func (f *forking) part(w forage.Workspace) forage.Part {
	part := forage.Part{Name: w.Name, ContainerPath: w.Target, Repo: w.Source, Mode: w.Mode, Branch: w.Base, ReadOnly: w.ReadOnly}
	if w.Mode != forage.WorkspaceDirect {
		return part
	}
	part.Repo = w.Path
	switch {
	case w.ReadOnly:
		part.Branch = ""
	case w.Repository == nil:
		part.Repo, part.Branch = w.Path+"-"+f.other, ""
	case w.Repository.Kind == forage.RepositoryJJ:
		part.Mode = forage.WorkspaceJJ
	default:
		part.Mode = forage.WorkspaceClone
	}
	return part
}

// rename puts the other's name and folders in the place of the first one's.
func (f *forking) rename(ctx context.Context, p *planner) error {
	spec := &p.plan.Spec
	old, err := composedMounts(f.first.Plan.Workspaces())
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
		if spec.Protect, err = f.protectedPaths(ctx, p.plan); err != nil {
			return err
		}
	}
	for _, file := range rootfs.Generated(f.other, spec.Identity, "") {
		i := slices.IndexFunc(spec.Files, func(have forage.File) bool { return have.Path == file.Path })
		if i >= 0 && (file.Path == "/etc/hostname" || file.Path == "/etc/hosts") {
			spec.Files[i] = file
		}
	}
	if spec.Env["FORAGE_SANDBOX"] == f.name {
		spec.Env["FORAGE_SANDBOX"] = f.other
	}
	if spec.KeptHome != "" {
		spec.KeptHome = f.homeOf(f.other)
	}
	if id := rootHost(f.name); spec.Identity.HostUID == id {
		spec.Identity.HostUID, spec.Identity.HostGID = rootHost(f.other), rootHost(f.other)
	}
	return nil
}

// fill gives the other's workspaces, which were made already, the state of the first one's.
func (f *forking) fill(ctx context.Context, record store.Record) error {
	request := snapshot.Request{Sandbox: f.other, Of: record.CreatedAt, Label: "fork of " + f.name, Automatic: true}
	alternates := make(map[string][]byte)
	for _, pair := range f.parts {
		folders, err := f.foldersOf(ctx, pair[1], true)
		if err != nil {
			return err
		}
		request.Folders = append(request.Folders, folders...)
		if err := borrowed(pair[1], alternates); err != nil {
			return err
		}
	}
	defer f.progress("copying the workspace of " + f.name)()
	before, err := f.snapshots().Restore(ctx, f.name, f.state.ID, request)
	if err != nil {
		return fmt.Errorf("taking over the state of %s: %w", f.name, err)
	}
	for file, text := range alternates {
		if err := writeBorrowed(file, text); err != nil {
			return err
		}
	}
	for _, pair := range f.parts {
		if err := f.adopt(ctx, pair[0], pair[1]); err != nil {
			return err
		}
	}
	return f.snapshots().Delete(f.other, before.ID) // no agent was at work there
}

// remember gives the other the first one's baseline of findings: what the first one's agent left is
// new to the user in the other, too. Only the metadata at the root is the other's own, since we
// have just made it.
func (f *forking) remember() error {
	own, err := f.looked(f.other)
	if err != nil {
		return err
	}
	for part, before := range f.before {
		for _, name := range []string{".git", ".jj"} {
			delete(before, name)
			if digest, ok := own[part][name]; ok {
				before[name] = digest
			}
		}
	}
	return writeJSON(f.lookFile(f.other), f.before)
}

// adopt changes the private state that came with the snapshot from that of the part w to that of
// next.
func (f *forking) adopt(ctx context.Context, w, next forage.Workspace) error {
	if next.Repository == nil || next.Repository.Kind != forage.RepositoryGit || next.ReadOnly {
		return nil
	}
	if err := gitrepo.PinFork(ctx, w, next, f.Workspaces.Places.Scratch); err != nil {
		return err
	}
	head := w.Repository.Head
	return gitrepo.Adopt(filepath.Join(next.Repository.Dir, "git"), head, next.Repository.Head, head == w.Branch)
}

// alternatesFile says where a git directory borrows objects. The paths in it are those of a
// sandbox's own mounts, so the first one's must not replace the other's.
const alternatesFile = "objects/info/alternates"

func borrowed(w forage.Workspace, into map[string][]byte) error {
	if w.Repository == nil {
		return nil
	}
	file := filepath.Join(w.Repository.Dir, "git", alternatesFile)
	text, err := os.ReadFile(file) // made by us a moment ago: no agent was inside
	if err == nil {
		into[file] = text
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeBorrowed writes an alternates file back into a git directory that was restored from the
// state, which is hostile.
func writeBorrowed(file string, text []byte) error {
	root, err := os.OpenRoot(filepath.Dir(filepath.Dir(filepath.Dir(file))))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := errors.Join(root.MkdirAll(filepath.Dir(alternatesFile), 0o755), root.RemoveAll(alternatesFile)); err != nil {
		return err
	}
	return root.WriteFile(alternatesFile, text, 0o644)
}
