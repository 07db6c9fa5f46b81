package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// keeping is one keepAll, or KeepElsewhere.
type keeping struct {
	*Shadow
	w       forage.Workspace
	in      *inside
	sandbox string
	made    time.Time
	saved   []string // revisions whose commits need not be kept
	kept    []workspace.Recovery
}

// begin finds what need not be kept, and where the work is in the host's repository.
func (s *Shadow) begin(ctx context.Context, w forage.Workspace, sandbox string) (k keeping, at string, err error) {
	k = keeping{Shadow: s, w: w, sandbox: sandbox, made: time.Now().UTC().Truncate(time.Millisecond)}
	if k.saved, err = s.saved(ctx, w); err == nil {
		at, err = s.Git.Branch(ctx, gitrepo.TipRef(w))
	}
	return k, at, err
}

// keepAll makes refs in the host's repository, below gitrepo.RecoveryRefs, that hold all of w's work that nothing else has:
// uncommitted files as one more commit, and each head. A private repository out of which no commits can be had
// is moved to a folder.
func (s *Shadow) keepAll(ctx context.Context, w forage.Workspace, sandbox string) (_ []workspace.Recovery, err error) {
	k, at, err := s.begin(ctx, w, sandbox)
	if err != nil {
		return nil, err
	}
	if k.in, err = s.lookToKeep(ctx, w); err != nil {
		if err := k.damaged(ctx, at, err); err != nil {
			return k.kept, err
		}
	}
	defer func() { err = errors.Join(err, k.in.staging.Close()) }()
	if err := k.files(ctx); err != nil {
		return k.kept, fmt.Errorf("keeping uncommitted work: %w", err)
	}
	err = k.each(ctx, "head", append(k.in.others, at))
	return k.kept, err
}

// KeepElsewhere keeps what Elsewhere names.
func (s *Shadow) KeepElsewhere(ctx context.Context, w forage.Workspace, sandbox string) (_ []workspace.Recovery, err error) {
	k, at, err := s.begin(ctx, w, sandbox)
	if err != nil {
		return nil, err
	}
	k.saved = append(k.saved, notRoot([]string{at})...)
	if k.in, err = s.lookToKeep(ctx, w); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return gitrepo.KeepMetadata(w, sandbox, k.made, jjFolder)
	}
	err = k.each(ctx, "jj", append(k.in.others, k.in.work))
	return k.kept, errors.Join(err, k.in.staging.Close())
}

// each keeps commits under numbered names.
func (k *keeping) each(ctx context.Context, kind string, tips []string) error {
	for n, tip := range tips {
		if err := k.keep(ctx, fmt.Sprintf("%s-%d", kind, n+1), tip); err != nil {
			return err
		}
	}
	return nil
}

// lookToKeep is look for what has no more heads than can be kept one by one.
func (s *Shadow) lookToKeep(ctx context.Context, w forage.Workspace) (*inside, error) {
	ctx, cancel := context.WithTimeout(ctx, gitrepo.KeepPatience)
	defer cancel()
	in, err := s.look(ctx, w)
	if err != nil || len(in.others) <= gitrepo.MaxKept {
		return in, err
	}
	return nil, errors.Join(fmt.Errorf("there are %d heads", len(in.others)), in.staging.Close())
}

// damaged goes on without what is inside, which is moved aside as it is.
func (k *keeping) damaged(ctx context.Context, at string, why error) (err error) {
	if ctx.Err() != nil {
		return why
	}
	if k.kept, err = gitrepo.KeepMetadata(k.w, k.sandbox, k.made, metadata(k.w)...); err != nil {
		return errors.Join(why, err)
	}
	k.in = &inside{work: at}
	if at == "" {
		k.in.work = k.w.Base
	}
	k.in.staging, err = k.Repository.Git.Staging(k.scratch, filepath.Join(k.Dir, "staging"))
	return err
}

// files keeps the work's commit, with the files that it doesn't have on top.
func (k *keeping) files(ctx context.Context) error {
	top := k.in.work
	if k.w.Mode != forage.WorkspaceDirect && !k.w.ReadOnly {
		if _, err := os.Lstat(k.w.Path); errors.Is(err, fs.ErrNotExist) {
			if k.in.dirty != "" {
				top = k.in.dirty // the last copy of the files
			}
		} else {
			commit, more, err := gitrepo.KeepFiles(ctx, k.in.staging, k.w, k.sandbox, top, k.made)
			k.kept = append(k.kept, more...)
			if err != nil {
				return err
			}
			top = commit
		}
	}
	return k.keep(ctx, "work", top)
}

// keep makes a recovery ref, unless the commit is safe.
func (k *keeping) keep(ctx context.Context, name, id string) error {
	if len(notRoot([]string{id})) == 0 {
		return nil
	}
	fresh, err := k.in.staging.Line(ctx, append([]string{"rev-list", "--max-count=1", id, "--not"}, k.saved...)...)
	if err != nil || fresh == "" {
		return err
	}
	if err := k.in.staging.Sized(ctx, id); err != nil {
		return err
	}
	if err := k.in.staging.Hand(ctx, []string{id}); err != nil {
		return err
	}
	ref := gitrepo.RecoveryPrefix(k.w, k.sandbox, k.made) + "/" + name
	if err := k.Git.MoveBranch(ctx, ref, "", id, "forage: kept for recovery"); err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	k.kept = append(k.kept, workspace.Recovery{Sandbox: k.sandbox, Store: k.w.Repository.Store, Ref: ref, Made: k.made})
	k.saved = append(k.saved, id)
	return nil
}
