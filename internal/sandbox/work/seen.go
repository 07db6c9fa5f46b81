package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostile"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// seen is whether a part had unsaved work when all that the answer depends on had this stamp.
type seen struct {
	Stamp   string `json:"stamp"`
	Unsaved bool   `json:"unsaved"`
}

// settled is how old the last change must be for an answer to be kept: a later change then has
// another time.
const settled = 2 * time.Second

// seenFile has a seen for each part. It is only for what is shown: down asks git each time.
func (k *Keeper) seenFile(name string) string {
	return filepath.Join(k.Host.Places.Of(name).Generated, "seen.json")
}

// isUnsaved brings commits, and says whether a part has work that is nowhere else. If nothing has
// changed since the last time, it starts no git and no jj.
func (k *Keeper) isUnsaved(ctx context.Context, provider workspace.Provider, w forage.Workspace, last seen) (seen, error) {
	if now, _, err := stamp(ctx, w); err == nil && now == last.Stamp {
		return last, nil
	}
	updated := broughtWithin(ctx, deadline.End, provider, w)
	began := time.Now()
	now, changed, err := stamp(ctx, w)
	status, asked := k.saidOf(ctx, provider, w)
	if errors.Join(updated, err, asked) != nil || status.Problem != "" || began.Sub(changed) < settled {
		now = "" // it is asked again the next time
	}
	return seen{now, status.Unsaved()}, asked
}

// stamp is a hash of the name, inode and change time of every file that Status looks at, and the
// last of these times. The agent can't set a change time. Objects are left out: they have no names
// but by refs.
func stamp(ctx context.Context, w forage.Workspace) (_ string, last time.Time, err error) {
	if w.Repository == nil {
		return "", last, fs.ErrInvalid
	}
	roots := []string{w.Path, filepath.Join(w.Repository.Dir, "git"), w.Repository.Store}
	if w.Repository.Kind == forage.RepositoryJJ { // where one of these is no folder, that is an error
		roots = append(roots, filepath.Join(w.Repository.Dir, "jj"), filepath.Join(w.Source, ".jj/repo"))
	}
	commit, tip, err := gitrepo.Taken(w)
	if err != nil {
		return "", last, err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, commit, tip)
	for i, root := range roots {
		err := hostile.Walk(root, func(rel string, st *unix.Stat_t) error {
			fmt.Fprintf(sum, "%q %d %o %d %d %d\n", rel, st.Ino, st.Mode, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
			if changed := time.Unix(st.Ctim.Unix()); changed.After(last) {
				last = changed
			}
			if i > 0 && rel == "objects" {
				return fs.SkipDir
			}
			return ctx.Err()
		})
		if err != nil {
			return "", last, err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), last, nil
}
