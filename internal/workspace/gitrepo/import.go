package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"forage"
	"forage/internal/workspace"
)

// Import brings the commits of the private metadata to w.Branch in the host's repository. The private
// git directory is read as data: refs by our own reader, loose objects and packs as bytes, which are
// checked in a store of our own, before they come near the user's. It costs no process when
// nothing has changed. A branch that the user moved meanwhile is not touched: that is workspace.Status.Problem.
// Of a direct workspace commits are brought only when the host's repository lacks them.
func Import(ctx context.Context, w forage.Workspace, scratch string) (workspace.Update, error) {
	if w.Repository == nil || w.Branch == "" {
		return workspace.Update{}, nil
	}
	if state, tip, err := peek(w); err != nil || tip == "" || state.done(w, tip) {
		return workspace.Update{Before: state.Branch, After: state.Branch}, err
	}
	unlock, err := lockImport(ctx, w)
	if err != nil {
		return workspace.Update{}, err
	}
	defer unlock()
	state, tip, err := peek(w) // somebody may have done it
	if err != nil || tip == "" || state.done(w, tip) {
		return workspace.Update{Before: state.Branch, After: state.Branch}, err
	}
	i, err := openImport(ctx, w, scratch)
	if err != nil {
		return workspace.Update{}, err
	}
	update, err := i.run(ctx, state, tip)
	return update, errors.Join(err, i.close())
}

// peek reads what is known of the last import, and where the branch inside is now; "" is nowhere.
func peek(w forage.Workspace) (imported, string, error) {
	state, err := loadImported(w)
	if err != nil {
		return state, "", err
	}
	from, err := openMetadata(filepath.Join(w.Repository.Dir, "git"))
	if errors.Is(err, fs.ErrNotExist) {
		return state, "", nil
	}
	if err != nil {
		return state, "", err
	}
	defer from.close()
	tip, err := tipInside(from, w)
	return state, tip, err
}

// tipInside is the commit that stands for the sandbox's work inside: its branch or, where it began without one, HEAD.
func tipInside(from *metadata, w forage.Workspace) (tip string, err error) {
	if w.Repository.Head == "" {
		tip, _, err = from.head()
	} else {
		tip, err = from.branch(branchRef(w.Repository.Head))
	}
	if err != nil {
		return "", fmt.Errorf("reading the branch inside: %w", err)
	}
	return tip, nil
}

// importing is one import, with everything open that it needs.
type importing struct {
	w       forage.Workspace
	host    *Shadow
	from    *metadata
	scratch string
}

func openImport(ctx context.Context, w forage.Workspace, scratch string) (_ *importing, err error) {
	r, err := openStore(ctx, w)
	if err != nil {
		return nil, err
	}
	from, err := openMetadata(filepath.Join(w.Repository.Dir, "git"))
	if err != nil {
		return nil, err
	}
	host, err := r.Shadow(scratch)
	if err != nil {
		from.close()
		return nil, err
	}
	return &importing{w: w, host: host, from: from, scratch: scratch}, nil
}

// openStore opens the host's repository, which the user may have moved.
func openStore(ctx context.Context, w forage.Workspace) (*Repository, error) {
	r, err := Open(ctx, w.Repository.Store)
	if errors.Is(err, ErrNoRepository) || errors.Is(err, fs.ErrNotExist) {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the repository %s is not there any more", w.Repository.Store),
			"move it back; until then the commits stay inside")
	}
	return r, err
}

func (i *importing) close() error {
	i.from.close()
	return i.host.Close()
}

func (i *importing) run(ctx context.Context, state imported, tip string) (workspace.Update, error) {
	ref := branchRef(i.w.Branch)
	now, err := i.host.Branch(ctx, ref)
	update := workspace.Update{Before: now, After: now}
	if err != nil {
		return update, err
	}
	if now != tip && state.Tip != tip {
		if moved(state, now) {
			return update, nil // see Status
		}
		moves, err := i.bring(ctx, state, tip, now)
		if err != nil {
			return update, err
		}
		if moves {
			state.Branch, state.Next = now, tip
			if err := saveImported(i.w, state); err != nil {
				return update, err
			}
			err := i.host.MoveBranch(ctx, ref, now, tip, "forage: commits from inside")
			if errors.Is(err, errMoved) {
				return update, nil
			}
			if err != nil {
				return update, err
			}
			now = tip
		}
	}
	update.After = now
	if !moved(state, now) || now == tip {
		state.Branch = now
	}
	state.Tip, state.Next = tip, ""
	if err := saveImported(i.w, state); err != nil || !hasTree(i.w) || state.Branch != now {
		return update, err
	}
	return update, i.bringIndex(ctx, state)
}

// moved says whether somebody else has moved the branch on the host, now being where it is. One that was
// deleted is made again: nothing is lost by that.
func moved(state imported, now string) bool {
	return now != "" && now != state.Branch && now != state.Next
}

// bring brings the objects, and says whether the branch is to follow. It isn't where the host's
// repository has the commit and no branch of ours: it came from there.
func (i *importing) bring(ctx context.Context, state imported, tip, now string) (moves bool, err error) {
	stop := make(map[string]bool)
	for _, id := range []string{state.Tip, state.Branch, i.w.Base} {
		stop[id] = id != ""
	}
	if err := i.transfer(ctx, tip, stop); err != nil {
		return false, fmt.Errorf("bringing commits from inside: %w", err)
	}
	if now != "" || i.w.Mode != forage.WorkspaceDirect {
		return true, nil
	}
	has, err := i.host.contains(ctx, tip)
	return !has, err
}

func (i *importing) transfer(ctx context.Context, tip string, stop map[string]bool) (err error) {
	s, err := newStaging(i.host.Repository, i.from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.commits = true
	return s.transfer(ctx, i.host, []string{tip}, stop)
}

// bringIndex brings the index of the working folder on the host to where the branch is.
func (i *importing) bringIndex(ctx context.Context, state imported) error {
	if state.Index == state.Branch {
		return nil
	}
	if err := i.host.bringIndexTo(ctx, i.w.Path, state.Branch); err != nil {
		return fmt.Errorf("bringing the index of %s up to date: %w", i.w.Path, err)
	}
	state.Index = state.Branch
	return saveImported(i.w, state)
}
