package gitrepo

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"forage"
	"forage/internal/workspace"
)

// KeepFiles makes a commit, in the repository of a staging, of what is in w's working folder, on top of tip; it is tip when
// nothing has changed. What can't be in a commit is moved to a folder. It is what jjrepo needs of Keep, as is KeepMetadata.
func KeepFiles(ctx context.Context, from *Shadow, w forage.Workspace, sandbox, tip string, made time.Time) (commit string, kept []workspace.Recovery, err error) {
	host, err := from.Repository.Shadow(filepath.Dir(from.Dir))
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	k := keeping{importing: &importing{w: w, host: host, stage: from}, sandbox: sandbox, made: made}
	if commit, err = k.commitFiles(ctx, tip); err == nil && commit != tip && from.Hand(ctx, []string{commit}) != nil && ctx.Err() == nil {
		// A file that git's checks refuse, such as a .gitmodules: a recovery ref may have it.
		err = from.Bring(ctx, from.Repository, commit, tip)
	}
	return commit, k.kept, err
}

// KeepMetadata moves folders of w's private metadata, out of which no commits could be had, to where they are kept.
func KeepMetadata(w forage.Workspace, sandbox string, made time.Time, names ...string) ([]workspace.Recovery, error) {
	k := keeping{importing: &importing{w: w}, sandbox: sandbox, made: made}
	var errs []error
	for _, name := range names {
		errs = append(errs, k.moveAside(name, filepath.Join(w.Repository.Dir, name)))
	}
	return k.kept, errors.Join(errs...)
}

// KeepTree moves w's working folder to where it is kept: with its metadata, all that is left of work on a repository that is gone.
func KeepTree(w forage.Workspace, sandbox string, made time.Time) ([]workspace.Recovery, error) {
	k := keeping{importing: &importing{w: w}, sandbox: sandbox, made: made}
	err := k.moveAside("files", w.Path)
	return k.kept, err
}

// RecoveryPrefix is what the recovery refs of a part begin with, made at a time.
func RecoveryPrefix(w forage.Workspace, sandbox string, made time.Time) string {
	k := keeping{importing: &importing{w: w}, sandbox: sandbox, made: made}
	return k.prefix()
}
