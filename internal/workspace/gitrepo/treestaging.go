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

// Staging is a Shadow that writes objects to a folder of ours, which is made and stays, and finds the repository's and those of
// the other folders as well. What is written there is seen by nobody until Bring: not by the user's git, nor by other sandboxes.
func (r *Repository) Staging(scratch, objects string, others ...string) (*Shadow, error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return nil, err
	}
	if err := s.stageIn(objects, others...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// stageIn has a shadow write objects to a folder of ours.
func (s *Shadow) stageIn(objects string, others ...string) error {
	link := filepath.Join(s.Dir, "objects")
	alternate := filepath.Join(objects, "info/alternates")
	var lines strings.Builder
	for _, dir := range append([]string{filepath.Join(s.Repository.Common, "objects")}, others...) {
		lines.WriteString(quoteAlternate(dir) + "\n")
	}
	err := errors.Join(
		os.MkdirAll(filepath.Dir(alternate), 0o700),
		// In one step: another call may be reading it.
		renameio.WriteFile(alternate, []byte(lines.String()), 0o600, renameio.WithTempDir(filepath.Dir(alternate))),
		os.Remove(link),
		os.Symlink(objects, link))
	if err != nil {
		return fmt.Errorf("staging for %s: %w", s.Repository.Common, err)
	}
	return nil
}

// Bring copies what tips need to another repository, whose objects are alternates of this one's, without what have has
// already. It is done when it returns, as a whole: git finds a pack by its index, which comes last.
func (s *Shadow) Bring(ctx context.Context, to *Repository, tips, have []string) error {
	list := strings.Join(tips, "\n") + "\n"
	for _, tip := range have {
		if _, err := s.Line(ctx, "cat-file", "-e", "--end-of-options", tip); tip != "" && err == nil {
			list += "^" + tip + "\n"
		}
	}
	packs := filepath.Join(to.Common, "objects/pack")
	if err := os.Mkdir(packs, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Local are the objects that are not in alternates.
	_, err := s.Git(ctx, Call{
		Args:  []string{"pack-objects", "-q", "--revs", "--local", "--non-empty", "--threads=1", filepath.Join(packs, "pack")},
		Stdin: []byte(list),
	})
	if err != nil {
		return fmt.Errorf("bringing objects to %s: %w", to.Common, err)
	}
	return nil
}
