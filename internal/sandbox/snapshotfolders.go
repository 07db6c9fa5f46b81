package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// foldersOf are the folders that a part of a workspace consists of: its files, and what is private
// of its repositories. What is shown inside in the place of something else is no part of its files:
// there is the user's own metadata.
func (s *Service) foldersOf(ctx context.Context, w forage.Workspace, ignored bool) ([]snapshot.Folder, error) {
	main := snapshot.Folder{Name: w.Name, Path: w.Path}
	if main.Name == "" {
		main.Name = workspace.Main
	}
	if w.Repository == nil {
		return []snapshot.Folder{main}, nil
	}
	leave := make(map[string]bool)
	if !ignored {
		var err error
		if leave, err = s.ignoredBy(ctx, w); err != nil {
			return nil, fmt.Errorf("finding out what %s ignores: %w", w.Path, err)
		}
	}
	folders := []snapshot.Folder{main}
	for _, m := range w.Repository.Mounts {
		if !rootfs.Within(m.Source, w.Repository.Dir) {
			continue
		}
		if below, ok := strings.CutPrefix(m.Target, w.Target+"/"); ok {
			leave[below], leave[below+"/"] = true, true
		}
		if info, err := os.Lstat(m.Source); m.Writable && err == nil && info.IsDir() {
			rel, err := filepath.Rel(w.Repository.Dir, m.Source)
			if err != nil {
				return nil, err
			}
			folders = append(folders, snapshot.Folder{Name: main.Name + "/" + rel, Path: m.Source})
		}
	}
	folders[0].Ignored = func(path string) bool { return leave[path] }
	return folders, nil
}

// maxIgnored bounds the list of what is ignored, in bytes.
const maxIgnored = 256 << 20

// ignoredBy are the paths that a repository ignores, folders with a slash at the end, and nothing
// below them. Git looks at names alone, in a shadow; what it tracks is what the branch on the host
// has.
func (s *Service) ignoredBy(ctx context.Context, w forage.Workspace) (_ map[string]bool, err error) {
	if _, err := os.Lstat(w.Path); errors.Is(err, os.ErrNotExist) {
		return map[string]bool{}, nil
	}
	repository, err := gitrepo.OpenToRead(ctx, w.Repository.Store)
	if errors.Is(err, gitrepo.ErrNoRepository) {
		_, err = gitrepo.Moved(w)
	}
	if err != nil {
		return nil, err
	}
	shadow, err := repository.Shadow(s.Workspaces.Places.Scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shadow.Close()) }()
	index := filepath.Join(shadow.Dir, "ignored.index")
	if tracked := tracking(ctx, shadow, w); tracked != "" {
		if _, err := shadow.Git(ctx, gitrepo.Call{Args: []string{"read-tree", tracked}, Index: index}); err != nil {
			return nil, err
		}
	}
	list, err := shadow.Git(ctx, gitrepo.Call{
		Args:     []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"},
		WorkTree: w.Path, Index: index, Output: maxIgnored, Brief: true,
	})
	if err != nil {
		return nil, gitrepo.TooLong(err)
	}
	return onlyIgnored(strings.Split(strings.TrimRight(string(list), "\x00"), "\x00")), nil
}

// tracking is the commit whose files are tracked; "" is none.
func tracking(ctx context.Context, shadow *gitrepo.Shadow, w forage.Workspace) string {
	for _, name := range []string{gitrepo.TipRef(w), w.Base} {
		if name == "" {
			continue
		}
		if id, err := shadow.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}"); err == nil {
			return id
		}
	}
	return ""
}

// onlyIgnored drops the folders that git lists because everything in them happens to be ignored: it
// lists what is in them too. They are no part of what is left out, or a file that comes to be there
// would be.
func onlyIgnored(list []string) map[string]bool {
	slices.Sort(list)
	found := make(map[string]bool, len(list))
	for i, path := range list {
		hasMore := i+1 < len(list) && strings.HasSuffix(path, "/") && strings.HasPrefix(list[i+1], path)
		if path != "" && !hasMore {
			found[path] = true
		}
	}
	return found
}
