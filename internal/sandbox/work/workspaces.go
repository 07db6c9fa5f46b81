package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostile"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/review"
)

// makeWorkspaces makes what the providers planned. The sandbox is on record by then, in
// PhaseCreating, so that what is made is found again however this ends. A note beside the metadata
// says what is made: it outlives a record that is removed by hand.
func (k *Keeper) Make(ctx context.Context, plan forage.Plan) error {
	if made := MadeParts(plan); len(made) > 0 {
		if err := store.WriteWhole(k.noteFile(plan.Name), made, !plan.Ephemeral); err != nil { // as the record of a run
			return err
		}
	}
	for _, w := range plan.Workspaces() {
		provider, err := k.Host.Workspaces.New(w.Mode)
		if err != nil {
			return err
		}
		end := k.Progress("making the workspace, " + string(w.Mode))
		err = provider.Create(ctx, w)
		end()
		if err != nil {
			return fmt.Errorf("making the workspace: %w", err)
		}
	}
	return errors.Join(MakeRoom(plan), hideParts(plan.Workspaces()))
}

// removeWorkspaces takes away what was made, the last part first.
func (k *Keeper) Remove(ctx context.Context, name string, parts []forage.Workspace, how workspace.Removal) error {
	end, err := k.beginRemoval(name, parts, how)
	if err != nil {
		return err
	}
	var kept []workspace.Recovery
	var notes []string
	var failed []error
	for _, w := range slices.Backward(parts) {
		provider, err := k.Host.Workspaces.New(w.Mode)
		if err == nil {
			err = k.recoverApply(ctx, name, w, how)
		}
		if err == nil {
			var recovered []workspace.Recovery
			recovered, err = k.removePart(ctx, provider, name, w, how)
			kept = append(kept, recovered...)
			notes = append(notes, recoveryNotes(recovered, w)...)
		}
		failed = append(failed, err)
	}
	err = errors.Join(append(failed, k.remember(kept))...)
	for _, note := range notes {
		k.Notify(note)
	}
	if err != nil {
		return err
	}
	return errors.Join(end(), k.forgetWorkspaces(name))
}

// recoverApply takes back what an apply left in the user's folder that was killed: once the part is
// removed, no record has it.
func (k *Keeper) recoverApply(ctx context.Context, name string, w forage.Workspace, how workspace.Removal) error {
	err := review.Recover(ctx, k.subject(name, w), k.nobodyWrites)
	if err != nil && how == workspace.RemoveForced && ctx.Err() == nil {
		k.Notify(err.Error())
		return nil
	}
	return err
}

// removePart removes one part. Work that can't be kept in its repository, because that is gone or
// can't be read, is set aside as it is, so that a removal with force always gets rid of the
// sandbox.
func (k *Keeper) removePart(ctx context.Context, provider workspace.Provider, name string, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	kept, err := provider.Remove(ctx, w, how)
	if err == nil || !keeps(how) || ctx.Err() != nil {
		return kept, err
	}
	folder, asideErr := k.setAside(name, w)
	if asideErr != nil || folder == "" {
		return kept, errors.Join(err, asideErr)
	}
	k.Notify(err.Error())
	aside := workspace.Recovery{Sandbox: name, Folder: folder, Made: time.Now().UTC()}
	if w.Mode == forage.WorkspaceWorktree {
		aside.Left = &w
	}
	kept = append(kept, aside)
	_, err = provider.Remove(ctx, w, workspace.RemoveUnused)
	return kept, err
}

// updateWorkspaces brings the commits of all parts to the host's repositories.
func (k *Keeper) Update(ctx context.Context, plan forage.Plan) error {
	var failed []error
	for _, w := range plan.Workspaces() {
		provider, err := k.Host.Workspaces.New(w.Mode)
		if err == nil {
			_, err = provider.Update(ctx, w)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("bringing the commits of %s to its repository: %w", partName(plan.Name, w), err))
		}
	}
	return errors.Join(failed...)
}

// noteFile holds, as JSON, what was made for a sandbox: a list of forage.Workspace.
func (k *Keeper) noteFile(name string) string {
	return filepath.Join(k.Host.Workspaces.Places.Repositories, name+".json")
}

// MadeParts are the parts of a workspace for which something is made.
func MadeParts(plan forage.Plan) []forage.Workspace {
	return slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool {
		return w.Mode == forage.WorkspaceDirect && w.Repository == nil
	})
}

// noted is what the note of a sandbox says was made; nothing if there is none.
func (k *Keeper) Noted(name string) ([]forage.Workspace, error) {
	var made []forage.Workspace
	err := store.ReadJSON(k.noteFile(name), &made)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return made, err
}

// forgetWorkspaces removes the last of a sandbox whose workspaces are gone: what was kept beside
// the metadata, and the note.
func (k *Keeper) forgetWorkspaces(name string) error {
	folder := filepath.Join(k.Host.Workspaces.Places.Repositories, name)
	err := hostile.RemoveAll(folder)
	for range 10 {
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
		err = hostile.RemoveAll(folder) // a list that was being made has taken a lock there meanwhile
	}
	if err != nil {
		return err
	}
	if err := os.Remove(k.noteFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MakeRoom makes, in the trees that Forage made, the folders that other parts and the user's own
// mounts are mounted on. Nothing of the sandbox may run. What is inside is hostile: no link is
// followed.
func MakeRoom(p forage.Plan) error {
	parts := p.Workspaces()
	for _, mount := range p.Spec.Mounts {
		outer, ok := plan.Holds(parts, mount.Target)
		if !ok || outer.Mode == forage.WorkspaceDirect || slices.Contains(plan.Metadata(outer), mount) {
			continue
		}
		if info, err := os.Stat(mount.Source); err != nil || !info.IsDir() {
			continue // a place for a file is not ours to make: it would be a file of the tree
		}
		place := strings.TrimPrefix(mount.Target, outer.Target+"/")
		if err := makeFolder(outer.Path, place); err != nil {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "making a place for %s in %s: %w", mount.Target, outer.Path, err),
				"choose another place for it, or take what is there out of the branch")
		}
	}
	return nil
}

// StillThere refuses to start or fork a sandbox whose workspace, or its repository, was moved or
// removed by hand.
func StillThere(p forage.Plan, what string) error {
	for _, w := range p.Workspaces() {
		if !plan.Exists(w.Path) {
			return gone(p.Name, w, what, w.Path)
		}
		if w.Repository != nil && !plan.Exists(w.Repository.Store) {
			return gone(p.Name, w, what, w.Repository.Store)
		}
	}
	return nil
}

// gone says that something can't be done with a sandbox, or a part of its workspace, since path is
// not there any more.
func gone(name string, w forage.Workspace, what, path string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%s can't be %s without %s, which is gone", partName(name, w), what, path),
		"move it back, or `forage-ctl down --force "+name+"` keeps what can be found of the work for 30 days and removes the sandbox")
}

// HideParts adds, for each part that is mounted in another one, a pattern to the other one's
// info/exclude: its files are not that repository'h. It is called while the workspace is made.
// Later the metadata is the agent's, and is not written to.
func hideParts(parts []forage.Workspace) error {
	for _, w := range parts {
		outer, ok := plan.Holds(parts, w.Target)
		if !ok || outer.Repository == nil {
			continue
		}
		info := filepath.Join(outer.Repository.Dir, "git/info")
		if err := os.MkdirAll(info, 0o755); err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(info, "exclude"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, ` `, `\ `) // of gitignore(5)
		_, err = fmt.Fprintf(file, "\n%s/\n", pattern.Replace(strings.TrimPrefix(w.Target, outer.Target)))
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes place, and what leads to it, below root.
func makeFolder(root, place string) error {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.MkdirAll(place, 0o755); err != nil {
		return err
	}
	return plan.PlainFolder(root, filepath.Join(root, place))
}

// partName is a sandbox, or one part of its workspace, in a message.
func partName(sandbox string, w forage.Workspace) string {
	if w.Name == "" || w.Name == workspace.Main {
		return sandbox
	}
	return sandbox + " (" + w.Name + ")"
}

// BringCommits is updateWorkspaces for who has done what was asked: what can't be brought is said.
func (k *Keeper) BringCommits(ctx context.Context, plan forage.Plan) {
	defer k.Progress("bringing commits out of " + plan.Name)()
	if err := k.Update(ctx, plan); err != nil {
		k.notifyOf(err)
	}
}

func (k *Keeper) notifyOf(err error) {
	text := err.Error()
	if hint := store.Hint(err); hint != "" {
		text += "; " + hint
	}
	k.Notify(text)
}

// BringSoon is bringCommits for a sandbox that goes on: the command does not wait for a big import.
func (k *Keeper) BringSoon(ctx context.Context, plan forage.Plan) {
	defer k.Progress("bringing commits out of " + plan.Name)()
	bringing, enough := context.WithTimeout(ctx, deadline.End) // the supervisor brings what takes longer
	defer enough()
	err := k.Update(bringing, plan)
	switch {
	case err == nil:
	case bringing.Err() != nil && ctx.Err() == nil:
		k.Notify("the commits of " + plan.Name + " are still being brought to its repository: `forage-ctl status " + plan.Name + "` says when they are there")
	default:
		k.notifyOf(err)
	}
}

// hasResult says whether a run's own trees have work that is nowhere else. That of the user's own
// folder is there.
func (k *Keeper) HasResult(ctx context.Context, plan forage.Plan) bool {
	trees := slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool { return w.Mode == forage.WorkspaceDirect })
	return slices.ContainsFunc(k.Of(ctx, deadline.Progress, trees), func(w Work) bool { return w.Unsaved })
}
