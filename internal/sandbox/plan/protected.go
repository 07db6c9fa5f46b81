package plan

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/term"
	"forage/internal/workspace/autorun"
	"forage/internal/workspace/gitrepo"
)

// protectedPaths are those that the agent may not change: at the root of each writable part what
// host tools execute, and what in the tree git is configured to execute.
func (h *Host) protectedPaths(ctx context.Context, plan forage.Plan) ([]string, error) {
	var list []string
	for _, w := range Writable(plan) {
		named := h.NamedByGit(ctx, w)
		if err := canProtect(w, named); err != nil {
			return nil, err
		}
		for _, name := range autorun.Protected {
			named = append(named, deciding(w.Path, filepath.Join(w.Path, name))...)
		}
		for _, name := range named {
			list = append(list, path.Join(w.Target, name))
		}
		if w.Mode == forage.WorkspaceJJ { // one that leads nowhere, so that git looks no further: see package jj
			list = append(list, path.Join(w.Target, ".git"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// maxLooked bounds how many files of protected folders are looked at.
const maxLooked = 10_000

// maxChangeable is how many of them are named.
const maxChangeable = 5

// changeable says which protected files of the user's folders can be changed from inside all the
// same: by another name that they have, or since they are links to what is not protected. Such a
// change is found later, by package autorun.
func changeable(plan forage.Plan) (notes []string) {
	protected := func(target string) bool {
		return slices.ContainsFunc(plan.Spec.Protect, func(p string) bool { return rootfs.Within(target, p) })
	}
	looked := 0
	for _, w := range Writable(plan) {
		if w.Mode != forage.WorkspaceDirect {
			continue // what git has just made there has one name
		}
		look := func(at string, entry fs.DirEntry, err error) error {
			if looked++; err != nil || looked > maxLooked {
				return fs.SkipAll
			}
			name, _ := filepath.Rel(w.Path, at)
			info, err := entry.Info()
			if err != nil {
				return nil
			}
			if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && stat.Nlink > 1 {
				notes = append(notes, term.Escape(name)+" has another name (a hard link)")
			}
			if info.Mode().Type() != fs.ModeSymlink {
				return nil
			}
			to, err := filepath.EvalSymlinks(at)
			if rel, inside := strings.CutPrefix(to, w.Path+"/"); err == nil && inside && !protected(path.Join(w.Target, rel)) {
				notes = append(notes, term.Escape(name)+" leads to "+term.Escape(rel))
			}
			return nil
		}
		for _, target := range plan.Spec.Protect {
			if rel, ok := strings.CutPrefix(target, w.Target+"/"); ok {
				_ = filepath.WalkDir(filepath.Join(w.Path, rel), look) // what is not there has no other name
			}
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// canProtect refuses a folder of the user's in which git is configured to execute what isn't there:
// the agent would make it, and the user's next git would execute it unseen.
func canProtect(w forage.Workspace, named []string) error {
	if w.Mode != forage.WorkspaceDirect {
		return nil
	}
	for _, name := range named {
		path := filepath.Join(w.Path, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "git is configured to execute what is in %s, which isn't there: it can't be protected from being made inside", path),
				"make it, even if empty; or, if it is not the place of your own configuration, take it out of .git/hooks, or of what `git config --show-origin --list` shows")
		}
	}
	return nil
}

// namedByGit are the files and folders of a workspace's tree that the host's git is configured to
// execute, to look for hooks in, or to read as more configuration, and the links in the tree by
// which it comes to them.
func (h *Host) NamedByGit(ctx context.Context, w forage.Workspace) []string {
	config := h.Caller.GitConfig()
	var list []string
	for _, c := range checkouts(w) {
		for _, named := range config.Named(ctx, c.repository, c.folder) {
			if named.Word && !isFile(named.Path) {
				continue
			}
			for _, place := range deciding(c.root, named.Path) {
				at := filepath.Join(c.root, place)
				covered := rootfs.Within(at, filepath.Join(c.root, ".git")) || rootfs.Within(at, filepath.Join(c.folder, ".git"))
				if !covered && !slices.Contains(list, place) {
					list = append(list, place)
				}
			}
		}
	}
	return list
}

// checkout is a folder in which the user's git works: that of a repository, in or around the tree
// at root.
type checkout struct{ repository, folder, root string }

// checkouts are those of a workspace. In the user's folder that a tree of ours is made from is what
// apply brings there.
func checkouts(w forage.Workspace) (list []checkout) {
	for _, root := range []string{w.Path, w.Source} {
		if !filepath.IsAbs(root) {
			continue
		}
		if w.Repository == nil {
			if folder, r, _ := gitrepo.Around(root); r != nil {
				list = append(list, checkout{r.Common, folder, root})
			}
			continue
		}
		list = append(list, checkout{w.Repository.Store, root, root})
		for _, nested := range w.Repository.Nested {
			list = append(list, checkout{nested.Repository.Store, filepath.Join(root, nested.Path), root})
		}
	}
	return list
}

// deciding are the places in the tree at root that decide what is at path: the links on the way to
// it, and where they lead.
func deciding(root, path string) (below []string) {
	var last string
	add := func(place string) {
		if name, err := filepath.Rel(root, place); err == nil && filepath.IsLocal(name) && name != "." {
			below = append(below, name)
		}
	}
	if !filepath.IsAbs(path) {
		return nil
	}
	for at, noLink := range rootfs.Way(path) {
		if last = at; noLink == nil {
			add(at)
		}
	}
	add(last)
	return below
}

// isFile says whether a word of a command is a program, and not an argument that a folder happens
// to be called like.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Writable are the parts of a workspace that can be changed from inside; with modes, only those of
// these modes.
func Writable(plan forage.Plan, modes ...forage.WorkspaceMode) []forage.Workspace {
	return slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool {
		return w.ReadOnly || len(modes) > 0 && !slices.Contains(modes, w.Mode)
	})
}
