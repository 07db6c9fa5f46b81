// Package jjrepo is all that the host does with jj repositories, and the one place that starts jj.
// As in gitrepo, our jj works in a shadow: a .jj folder of our own, without configuration, whose
// store is by links that of the user's repository, and with a configuration file that we wrote.
package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Repository is a jj repository of the host's as it was found from one of its workspaces:
// facts, read without running anything.
type Repository struct {
	Root      string // the workspace's folder, links resolved
	Dir       string // .jj/repo, which all workspaces share, links resolved
	Colocated bool   // Root has a .git of the same repository
	Git       *gitrepo.Repository
}

// ErrNoRepository says that there is no jj repository at a path.
var ErrNoRepository = errors.New("not a jj repository")

// maxTable bounds a file that says something of each commit or file, in bytes: it is copied, not
// read.
const maxTable = 4 << 30

// Open looks at the workspace whose folder is path itself. ErrNoRepository, or, when root calls,
// forage.ErrRefused for another user's. Formats are jj's business.
func Open(ctx context.Context, path string) (*Repository, error) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(filepath.Join(root, ".jj")); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w", path, ErrNoRepository)
	} else if err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, forage.Errorf(forage.ErrUnsupported, "%s/.jj is not a folder", path)
	}
	r := &Repository{Root: root}
	if err := r.findDir(); err != nil {
		return nil, err
	}
	if err := r.checkOwner(); err != nil {
		return nil, fmt.Errorf("opening the jj repository: %w", err)
	}
	if err := r.openGit(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// findDir finds what the workspaces share: .jj/repo, or what the file of that name says.
func (r *Repository) findDir() error {
	dir := filepath.Join(r.Root, ".jj/repo")
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("opening the jj workspace %s: %w", r.Root, err)
	}
	if info.Mode().IsRegular() {
		if dir, err = gitrepo.ReadPointer(dir, ""); err != nil {
			return err
		}
	}
	if r.Dir, err = filepath.EvalSymlinks(dir); errors.Is(err, fs.ErrNotExist) {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "the repository of %s is not at %s any more", r.Root, dir),
			"if it was moved, write its place into "+filepath.Join(r.Root, ".jj/repo"))
	}
	return err
}

// checkOwner refuses another user's repository when root calls: see workspace.CheckOwner.
func (r *Repository) checkOwner() error {
	paths := []string{r.Root, filepath.Join(r.Root, ".jj"), r.Dir}
	for _, name := range append(shared[:], "index") {
		if path := filepath.Join(r.Dir, name); exists(path) {
			paths = append(paths, path)
		}
	}
	return workspace.CheckOwner(paths...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// openGit opens the git directory that has the objects.
func (r *Repository) openGit(ctx context.Context) error {
	target, err := gitrepo.ReadPointer(filepath.Join(r.Dir, "store/git_target"), "")
	if err != nil {
		return err
	}
	if info, err := os.Stat(target); err == nil && !info.IsDir() { // a .git file
		target = filepath.Dir(target)
	}
	if r.Git, err = gitrepo.Open(ctx, target); err != nil {
		err = fmt.Errorf("opening the git repository below %s: %w", r.Dir, err)
		if hint := forage.Hint(err); hint != "" {
			err = forage.WithHint(err, "jj has no command for it: in "+target+", "+hint)
		}
		return err
	}
	if own, err := gitrepo.Open(ctx, r.Root); err == nil && own.Common == r.Git.Common {
		r.Colocated, r.Git = true, own
	}
	return nil
}
