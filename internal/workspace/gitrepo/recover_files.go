package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// commitFiles makes a commit of the files as they are, on top of tip, and returns it; tip when nothing differs.
func (k *keeping) commitFiles(ctx context.Context, tip string) (string, error) {
	if _, err := os.Lstat(k.w.Path); errors.Is(err, fs.ErrNotExist) {
		return tip, nil
	}
	tree, err := k.stage.WriteTree(ctx, Folder{
		Path: k.w.Path, Base: tip, Seed: k.host.Repository.IndexOf(ctx, k.w.Path), Rules: k.host.Rules(ctx, k.w),
	})
	if err != nil {
		return "", err
	}
	left := tree.Nested
	for _, file := range tree.Left {
		left = append(left, file.Path)
	}
	if err := k.moveFiles(left); err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree.ID, "-m", k.sandbox + ": uncommitted work"}
	if tip != "" {
		was, err := k.stage.Line(ctx, "rev-parse", "--verify", tip+"^{tree}")
		if err != nil || was == tree.ID {
			return tip, err
		}
		args = append(args, "-p", tip)
	}
	out, err := k.stage.Git(ctx, Call{Args: args, Env: []string{
		"GIT_AUTHOR_NAME=forage", "GIT_AUTHOR_EMAIL=forage@localhost", "GIT_COMMITTER_NAME=forage", "GIT_COMMITTER_EMAIL=forage@localhost",
	}})
	commit := strings.TrimSpace(string(out))
	if err != nil || tip == "" && tree.ID == k.emptyTree(ctx) {
		return tip, err
	}
	return commit, nil
}

// emptyTree is the tree of a folder without files.
func (k *keeping) emptyTree(ctx context.Context) string {
	id, _ := k.stage.Line(ctx, "hash-object", "-t", "tree", "/dev/null")
	return id
}

// aside is the folder for what can't be kept in git.
func (k *keeping) aside() string {
	places := workspace.Places{Repositories: filepath.Dir(filepath.Dir(k.w.Repository.Dir))}
	return places.Kept(k.sandbox, k.made, filepath.Base(k.w.Repository.Dir))
}

// moveAside moves a folder of w to where it is kept.
func (k *keeping) moveAside(name, path string) error {
	to := filepath.Join(k.aside(), name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(path, to); err != nil {
		return fmt.Errorf("keeping %s: %w", path, err)
	}
	k.noteAside()
	return nil
}

func (k *keeping) noteAside() {
	for _, r := range k.kept {
		if r.Folder == k.aside() {
			return
		}
	}
	k.kept = append(k.kept, workspace.Recovery{Sandbox: k.sandbox, Folder: k.aside(), Made: k.made})
}

// moveFiles moves files and nested repositories of the working folder to where they are kept. Their names come from
// inside: no link is followed on the way to one.
func (k *keeping) moveFiles(names []string) error {
	if len(names) == 0 {
		return nil
	}
	root, err := openFolder(k.w.Path)
	if err != nil {
		return err
	}
	defer root.close()
	for _, name := range names {
		to := filepath.Join(k.aside(), "files", name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is not below the folder", name)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		parent, err := root.openat(filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		err = unix.Renameat(parent, filepath.Base(name), unix.AT_FDCWD, to)
		if err = errors.Join(err, unix.Close(parent)); err != nil {
			return fmt.Errorf("keeping %q: %w", name, err)
		}
		k.noteAside()
	}
	return nil
}
