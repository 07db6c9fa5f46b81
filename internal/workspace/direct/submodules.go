package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// maxSubmodules bounds how many submodules a workspace may have: each costs mounts.
const maxSubmodules = 200

// planSubmodules covers the submodules of the user's folder. The user's git enters their folders,
// in a mere `git status`, and runs what the configuration that it finds there names. So metadata
// that is there is mounted over, as that of the workspace is; a folder in which there is none is
// read-only; and all folders on the way to them are mounts too, which can't be renamed.
func planSubmodules(ctx context.Context, request workspace.Request, r *gitrepo.Repository, w *forage.Workspace) error {
	if w.ReadOnly {
		return nil
	}
	p := &submodules{ctx: ctx, request: request, w: w, held: map[string]bool{}}
	if err := p.below(r, ""); err != nil {
		return err
	}
	w.Repository.Mounts = append(p.mounts, w.Repository.Mounts...)
	// What is the host's first: once the private .git covers it, its paths lead nowhere for who
	// mounts one by one.
	slices.SortStableFunc(w.Repository.Mounts, func(a, b forage.Mount) int {
		return cmp.Compare(p.private(a), p.private(b))
	})
	return nil
}

// private is 1 for a mount of what Forage made.
func (p *submodules) private(m forage.Mount) int {
	if rootfs.Within(m.Source, p.w.Repository.Dir) {
		return 1
	}
	return 0
}

type submodules struct {
	ctx     context.Context
	request workspace.Request
	w       *forage.Workspace
	held    map[string]bool
	mounts  []forage.Mount
}

// below plans the submodules of the repository at a folder of the workspace.
func (p *submodules) below(r *gitrepo.Repository, folder string) error {
	links, err := r.Gitlinks(p.ctx, filepath.Join(r.GitDir, "index"), p.request.Places.Scratch)
	if err != nil {
		return err
	}
	for _, link := range links {
		if err := p.one(path.Join(folder, link)); err != nil {
			return err
		}
	}
	return nil
}

// one plans the submodule at a path in the workspace.
func (p *submodules) one(at string) error {
	if len(p.held) > maxSubmodules {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "%s has more than %d folders with submodules", p.w.Path, maxSubmodules), worktreeHint)
	}
	folder, err := workspace.OpenFolder(filepath.Join(p.w.Path, at))
	if errors.Is(err, fs.ErrNotExist) {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the folder of submodule %s is missing in %s, so it can't be protected", at, p.w.Path),
			"make it (git submodule update --init, or an empty folder), or "+worktreeHint)
	}
	if err != nil { // a link on the way included
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "the submodule %s in %s: %w", at, p.w.Path, err), worktreeHint)
	}
	folder.Close()
	p.holdWay(path.Dir(at))
	sub, err := gitrepo.Open(p.ctx, filepath.Join(p.w.Path, at))
	if errors.Is(err, gitrepo.ErrNoRepository) {
		p.hold(at, false)
		return nil
	}
	if err != nil {
		return err
	}
	p.hold(at, true)
	return p.populated(sub, at)
}

const worktreeHint = "use --git-worktree, where the user's own submodules are not in reach"

// populated plans private metadata for a submodule that has some.
func (p *submodules) populated(sub *gitrepo.Repository, at string) error {
	pointer, err := isFile(filepath.Join(p.w.Path, at, ".git"))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("submodule%d", len(p.w.Repository.Nested))
	base, err := gitrepo.StartOf(p.ctx, sub, "", p.request.Places.Scratch)
	if err != nil {
		return err
	}
	repository, err := sub.PlanPrivate(gitrepo.Layout{
		Dir: filepath.Join(p.w.Repository.Dir, name), Part: path.Join(p.request.Name, name),
		Target: path.Join(p.request.Target, at), Pointer: pointer,
	}, sub.Head)
	if err != nil {
		return err
	}
	p.mounts = append(p.mounts, repository.Mounts...)
	p.w.Repository.Nested = append(p.w.Repository.Nested, forage.Nested{Path: at, Base: base, Repository: *repository})
	return p.below(sub, at)
}

// holdWay makes mounts of the folders from the root of the workspace to dir.
func (p *submodules) holdWay(dir string) {
	if dir == "." {
		return
	}
	p.holdWay(path.Dir(dir))
	p.hold(dir, true)
}

// hold makes a mount of a folder, over itself.
func (p *submodules) hold(at string, writable bool) {
	if p.held[at] {
		return
	}
	p.held[at] = true
	p.mounts = append(p.mounts, forage.Mount{
		Source: filepath.Join(p.w.Path, at), Target: path.Join(p.request.Target, at), Writable: writable,
	})
}
