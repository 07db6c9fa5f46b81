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

// Staging is a Shadow that writes objects to a folder of ours, which is made and stays, and finds the repository's as
// well. What is written there is seen by nobody until Bring: not by the user's git, nor by other sandboxes.
func (r *Repository) Staging(scratch, objects string) (*Shadow, error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return nil, err
	}
	link := filepath.Join(s.Dir, "objects")
	alternate := filepath.Join(objects, "info/alternates")
	err = errors.Join(
		os.MkdirAll(filepath.Dir(alternate), 0o700),
		// In one step: another call may be reading it.
		renameio.WriteFile(alternate, []byte(quoteAlternate(filepath.Join(r.Common, "objects"))+"\n"), 0o600, renameio.WithTempDir(filepath.Dir(alternate))),
		os.Remove(link),
		os.Symlink(objects, link))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("staging for %s: %w", r.Common, err), s.Close())
	}
	return s, nil
}

// Borrow has a Staging find the objects of another repository as well.
func (s *Shadow) Borrow(from *Repository) error {
	file, err := os.OpenFile(filepath.Join(s.Dir, "objects/info/alternates"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(quoteAlternate(filepath.Join(from.Common, "objects")) + "\n")
	return errors.Join(err, file.Close())
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
