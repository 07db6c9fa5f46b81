package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// Plain is a store of ours for trees of folders that have no repository, made at dir if it isn't there. workTree is the folder
// that its shadows may write to.
func Plain(ctx context.Context, dir, workTree string) (*Repository, error) {
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "objects/pack"), 0o700),
		os.MkdirAll(filepath.Join(dir, "refs/heads"), 0o700))
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		file := filepath.Join(dir, name)
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := renameio.WriteFile(file, []byte(text), 0o600, renameio.WithTempDir(dir)); err != nil {
			return nil, err
		}
	}
	r, err := Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	r.WorkTree = workTree
	return r, nil
}

// TreeOf makes a tree of these files of a folder, as far as they are there: byte for byte, whatever attributes say, and
// whether or not something ignores them.
func (s *Shadow) TreeOf(ctx context.Context, folder string, names []string) (Tree, error) {
	root, err := openFolder(folder)
	if err != nil {
		return Tree{}, err
	}
	defer root.close()
	w := treeWriter{shadow: s, folder: Folder{Path: folder}, root: root, index: filepath.Join(s.Dir, "tree.index"), exact: true}
	if err := os.Remove(w.index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Tree{}, err
	}
	if err := w.record(ctx, names); err != nil {
		return Tree{}, fmt.Errorf("reading the files of %s: %w", folder, err)
	}
	id, err := w.git(ctx, nil, "write-tree")
	w.tree.ID = strings.TrimSpace(string(id))
	return w.tree, err
}
