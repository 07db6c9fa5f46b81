package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/hazard"
)

// protectedPaths are those that the agent may not change: at the root of each writable part what host tools execute, and
// what in the tree git is configured to execute.
func protectedPaths(ctx context.Context, plan forage.Plan) ([]string, error) {
	var list []string
	for _, w := range writable(plan) {
		named := namedByGit(ctx, w)
		if err := canProtect(w, named); err != nil {
			return nil, err
		}
		for _, name := range slices.Concat(hazard.Protected, named) {
			for _, name := range throughLinks(w.Path, name) {
				list = append(list, path.Join(w.Target, name))
			}
		}
		if w.Mode == forage.WorkspaceJJ { // one that leads nowhere, so that git looks no further: see package jj
			list = append(list, path.Join(w.Target, ".git"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// canProtect refuses a folder of the user's in which git is configured to execute what isn't there: whoever is inside would make
// it, and the user's next git would execute it before anybody has looked.
func canProtect(w forage.Workspace, named []string) error {
	if w.Mode != forage.WorkspaceDirect {
		return nil
	}
	for _, name := range named {
		path := filepath.Join(w.Path, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "git is configured to execute what is in %s, which isn't there: it can't be protected from being made inside", path),
				"make it, even if empty, or take include.path or core.hooksPath out of git's configuration; `git config --show-origin --list` says where it is")
		}
	}
	return nil
}

// throughLinks are name and, where it is a link, what it leads to in the same tree, and so on: to change that is to change name.
func throughLinks(root, name string) []string {
	list := []string{name}
	for range 10 {
		target, err := os.Readlink(filepath.Join(root, name))
		if err != nil || filepath.IsAbs(target) {
			break
		}
		name = filepath.Join(filepath.Dir(name), target)
		if !filepath.IsLocal(name) || name == "." {
			break
		}
		list = append(list, name)
	}
	return list
}

// namedByGit are the files and folders of a workspace's tree that the host's git is configured to execute, to look for hooks in, or
// to read as more configuration.
func namedByGit(ctx context.Context, w forage.Workspace) []string {
	if w.Repository == nil || w.Repository.Store == "" {
		return nil
	}
	configured := []gitrepo.Named{{Path: w.Repository.Hooks}}
	// One that has moved or is gone: what can be said of the rest is said.
	if repository, err := gitrepo.OpenToRead(ctx, w.Repository.Store); err == nil {
		configured = append(configured, repository.Named(ctx, w.Path)...)
	}
	var list []string
	for _, named := range configured {
		for _, root := range []string{w.Path, w.Source} { // what the user's own folder is told apply brings there
			if root == "" || !filepath.IsAbs(root) {
				continue
			}
			name := belowTree(root, named.Path)
			if name != "" && !slices.Contains(list, name) && (!named.Word || isFile(filepath.Join(root, name))) {
				list = append(list, name)
			}
		}
	}
	return list
}

// isFile says whether a word of a command is a program, and not an argument that a folder happens to be called like.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// belowTree is what git is configured with relative to the tree at root; "" if it is not in there.
func belowTree(root, dir string) string {
	if dir == "" {
		return ""
	}
	// Husky's are in .husky/_ and run those of the same name in .husky.
	dir = strings.TrimSuffix(path.Clean(dir), "/_")
	if path.IsAbs(dir) {
		below, err := filepath.Rel(root, workspace.Resolved(dir)) // as git finds it, through links
		if err != nil {
			return ""
		}
		dir = below
	}
	if dir == "." || dir == ".." || strings.HasPrefix(dir, "../") || dir == ".git" || strings.HasPrefix(dir, ".git/") || strings.HasPrefix(dir, "~") {
		return ""
	}
	return dir
}
