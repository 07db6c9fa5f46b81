package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage/internal/workspace/gitrepo"
)

// bring copies the objects of a commit to the user's repository, with git's own push: git-receive-pack(1) keeps them apart until
// it has all of them. They go to the file system of that repository, wherever staging is. No ref of the user's moves.
func (s *Session) bring(ctx context.Context, to *gitrepo.Repository, commit string, have ...string) (err error) {
	receiver, err := to.Shadow(s.subject.Places.Scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, receiver.Close()) }()
	if err := ownRefs(receiver, append(have, s.Base)); err != nil {
		return err
	}
	_, err = s.staging.Line(ctx, "push", "--quiet", "--no-verify",
		// What comes in was checked when it was imported.
		"--receive-pack=git -c receive.autogc=false -c receive.fsckObjects=false receive-pack", "--", receiver.Dir, commit+":refs/heads/applied")
	if err != nil {
		return fmt.Errorf("bringing objects to %s: %w", to.Common, err)
	}
	return nil
}

// ownRefs gives a shadow refs of its own in the place of its repository's: commits that needn't be sent.
func ownRefs(shadow *gitrepo.Shadow, have []string) error {
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
		if commit != "" {
			failed = append(failed, os.WriteFile(filepath.Join(shadow.Dir, "refs/heads", fmt.Sprint("have", i)), []byte(commit+"\n"), 0o600))
		}
	}
	return errors.Join(failed...)
}
