package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// removing is the end of the name of a note that is there while a sandbox's work is kept and its
// workspaces are removed. A removal that is killed has kept what no other note tells of: this one
// says where that may be, and gc lets it go in its time.
const removing = ".removing.json"

// beginRemoval writes that note. end takes it back, unless an earlier removal was killed.
func (s *Service) beginRemoval(name string, parts []forage.Workspace, how workspace.Removal) (end func() error, err error) {
	if how == workspace.RemoveSaved || how == workspace.RemoveUnused || len(parts) == 0 {
		return func() error { return nil }, nil
	}
	file := filepath.Join(s.Workspaces.Places.Recovery(), name+removing)
	killed := exists(file)
	var places []workspace.Recovery
	for _, w := range parts {
		place := workspace.Recovery{Sandbox: name, Made: time.Now().UTC()}
		if w.Repository != nil {
			place.Store, place.Ref = w.Repository.Store, gitrepo.RecoveryRefs+name+"/"
		}
		places = append(places, place)
	}
	if err := writeJSON(file, places); err != nil {
		return nil, err
	}
	return func() error {
		if !killed {
			return os.Remove(file)
		}
		s.notify(fmt.Sprintf("an earlier removal of %s was interrupted: what that kept, if anything, is below %s%s/ in the repository, or in %s",
			name, gitrepo.RecoveryRefs, name, s.Workspaces.Places.Recovery()))
		return nil
	}, nil
}

// afterKilled lets go what removals of a sandbox have kept that were killed: all of it that no
// other note tells of.
func (c *collector) afterKilled(ctx context.Context, note string, places []workspace.Recovery) error {
	told, err := c.toldOf(note)
	if err != nil {
		return err
	}
	name := places[0].Sandbox
	entries, err := os.ReadDir(c.Workspaces.Places.Recovery())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(c.Workspaces.Places.Recovery(), entry.Name())
		if entry.IsDir() && strings.HasPrefix(entry.Name(), name+".") && !told[path] {
			if err := hostile.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for _, place := range places {
		if place.Ref == "" {
			continue
		}
		if err := gitrepo.ExpireBelow(ctx, place, func(ref string) bool { return told[place.Store+" "+ref] }, c.Workspaces.Places.Scratch); err != nil {
			return err
		}
	}
	return nil
}

// toldOf is what the notes of removals tell of, but for one: folders, and refs with their store
// before them.
func (c *collector) toldOf(but string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(c.Workspaces.Places.Recovery(), "*.json"))
	told := make(map[string]bool)
	for _, file := range files {
		if file == but {
			continue
		}
		var kept []workspace.Recovery
		if err := readJSON(file, &kept); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err // not known
		}
		for _, r := range kept {
			told[r.Folder], told[r.Store], told[r.Store+" "+r.Ref] = true, true, true
		}
	}
	return told, err
}
