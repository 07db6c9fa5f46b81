package sandbox

import (
	"context"
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
// the folders of the tree in which git is configured to look for hooks.
func protectedPaths(ctx context.Context, plan forage.Plan) []string {
	var list []string
	for _, w := range writable(plan) {
		for _, name := range slices.Concat(hazard.Protected, hooksOf(ctx, w)) {
			for _, name := range throughLinks(w.Path, name) {
				list = append(list, path.Join(w.Target, name))
			}
		}
		if w.Mode == forage.WorkspaceJJ { // one that leads nowhere, so that git looks no further: see package jj
			list = append(list, path.Join(w.Target, ".git"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
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

// hooksOf are the folders of a workspace's tree in which the host's git looks for hooks.
func hooksOf(ctx context.Context, w forage.Workspace) []string {
	if w.Repository == nil || w.Repository.Store == "" {
		return nil
	}
	configured := []string{w.Repository.Hooks}
	// One that has moved or is gone: what can be said of the rest is said.
	if repository, err := gitrepo.Open(ctx, w.Repository.Store); err == nil {
		values := repository.Config["core.hookspath"]
		configured = append(configured, values[max(len(values)-1, 0):]...)
	}
	var folders []string
	for _, dir := range configured {
		if dir = hooksBelow(w.Path, dir); dir != "" && !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	return folders
}

// hooksBelow is a folder of hooks relative to the tree at root; "" if it is none of its folders.
func hooksBelow(root, dir string) string {
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
