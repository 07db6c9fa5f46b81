package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Bring copies what a commit needs to another repository, with git's own push: git-receive-pack(1) keeps the objects apart until it
// has all of them. They go to the file system of that repository, wherever these are. have are commits that it has. No ref moves.
func (s *Shadow) Bring(ctx context.Context, to *Repository, commit string, have ...string) (err error) {
	receiver, err := to.Shadow(filepath.Dir(s.Dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, receiver.Close()) }()
	have = slices.DeleteFunc(slices.Clone(have), func(id string) bool {
		_, err := receiver.Line(ctx, "cat-file", "-e", id+"^{commit}")
		return id == "" || err != nil
	})
	if err := ownRefs(receiver, have); err != nil {
		return err
	}
	_, err = s.Line(ctx, "push", "--quiet", "--no-verify",
		// What comes in was checked when it was imported, or is kept though it doesn't pass.
		"--receive-pack=git -c receive.autogc=false -c receive.fsckObjects=false receive-pack", "--", receiver.Dir, commit+":refs/heads/applied")
	if err != nil {
		return fmt.Errorf("bringing objects to %s: %w", to.Common, err)
	}
	return nil
}

// ownRefs gives a shadow refs of its own in the place of its repository's: commits that needn't be sent.
func ownRefs(shadow *Shadow, have []string) error {
	for _, name := range []string{"refs", "packed-refs", "reftable", "logs"} {
		if err := os.RemoveAll(filepath.Join(shadow.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	config := filepath.Join(shadow.Dir, "config")
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	failed := []error{
		os.WriteFile(config, []byte(strings.ReplaceAll(string(text), "refstorage = \"reftable\"\n", "refstorage = \"files\"\n")), 0o600),
		os.MkdirAll(filepath.Join(shadow.Dir, "refs/heads"), 0o700),
		os.WriteFile(filepath.Join(shadow.Dir, "HEAD"), []byte("ref: refs/heads/none\n"), 0o600),
	}
	for i, commit := range have {
		failed = append(failed, os.WriteFile(filepath.Join(shadow.Dir, "refs/heads", fmt.Sprint("have", i)), []byte(commit+"\n"), 0o600))
	}
	return errors.Join(failed...)
}
