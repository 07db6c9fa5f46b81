package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		os.WriteFile(alternate, []byte(filepath.Join(r.Common, "objects")+"\n"), 0o600),
		os.Remove(link),
		os.Symlink(objects, link))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("staging for %s: %w", r.Common, err), s.Close())
	}
	return s, nil
}

// Bring copies what tips need of a staging's objects to the repository, without what have has already. It is done
// when it returns, as a whole: git finds a pack by its index, which comes last.
func (s *Shadow) Bring(ctx context.Context, tips, have []string) error {
	var list bytes.Buffer
	for _, tip := range tips {
		list.WriteString(tip + "\n")
	}
	for _, tip := range have {
		if tip != "" {
			list.WriteString("^" + tip + "\n")
		}
	}
	packs := filepath.Join(s.Repository.Common, "objects/pack")
	if err := os.Mkdir(packs, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Objects that the repository has are left out: --honor-pack-keep and the like have no word for that, --local has.
	out, err := s.Git(ctx, Call{
		Args:  []string{"pack-objects", "-q", "--revs", "--local", "--non-empty", "--threads=1", filepath.Join(packs, "pack")},
		Stdin: list.Bytes(),
	})
	if err != nil {
		return fmt.Errorf("bringing objects to %s: %w", s.Repository.Common, err)
	}
	_ = strings.TrimSpace(string(out)) // names of packs: none when the repository has everything
	return nil
}
