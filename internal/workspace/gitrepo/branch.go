package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// errMoved says that a ref is not where it was said to be.
var errMoved = errors.New("the branch is not where it was")

// branchRef is the full name of a branch.
func branchRef(branch string) string { return "refs/heads/" + branch }

// Branch is the commit that a full ref name of the host's repository stands for; "" if there is none.
func (s *Shadow) Branch(ctx context.Context, ref string) (string, error) {
	if !validRef(ref) {
		return "", forage.Errorf(forage.ErrUsage, "%q is no name of a ref", ref)
	}
	if id, known := s.Repository.readRef(ref); known {
		return id, nil
	}
	out, err := s.Git(ctx, Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", ref}})
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), " "+ref); ok {
			return id, nil
		}
	}
	return "", nil
}

// readRef is Branch without a process. known is false where only git can tell.
func (r *Repository) readRef(ref string) (id string, known bool) {
	if r.RefFormat != "files" {
		return "", false
	}
	text, err := readRegular(filepath.Join(r.Common, ref), maxPointer)
	if err == nil {
		id = string(bytes.TrimSpace(text))
		return id, isHex(id)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	packed, err := readRegular(filepath.Join(r.Common, "packed-refs"), maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return "", true
	}
	before, _, found := bytes.Cut(packed, []byte(" "+ref+"\n")) // no name has a space in it
	if err != nil || !found {
		return "", err == nil
	}
	id = string(before[bytes.LastIndexByte(before, '\n')+1:])
	return id, isHex(id)
}

// MoveBranch moves a ref of the host's repository from where it was ("": it wasn't there) to where it is to be. errMoved:
// it was elsewhere, and stays there. A ref that somebody holds locked is waited for, for
// as long as core.filesRefLockTimeout says.
func (s *Shadow) MoveBranch(ctx context.Context, ref, from, to, why string) error {
	if !validRef(ref) || !isHex(to) {
		return forage.Errorf(forage.ErrUsage, "%q is no name of a ref", ref)
	}
	old := from
	if old == "" {
		old = strings.Repeat("0", len(to))
	}
	_, err := s.Git(ctx, Call{Args: []string{"update-ref", "--no-deref", "--create-reflog", "-m", why, ref, to, old}})
	if err == nil || ctx.Err() != nil {
		return err
	}
	if now, look := s.Branch(ctx, ref); look == nil && now != from {
		if now == to {
			return nil
		}
		return errors.Join(errMoved, err)
	}
	return lockedHint(err, ref)
}

// lockedHint says what to do about a lock that is not given up.
func lockedHint(err error, what string) error {
	if !strings.Contains(err.Error(), ".lock") {
		return err
	}
	return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is locked by another git: %w", what, err),
		"try again when it has ended; if none is running, remove the .lock file that is named above")
}

// contains says whether any branch, tag or remote-tracking branch of the host's repository has the commit, but those in except.
func (s *Shadow) contains(ctx context.Context, commit string, except ...string) (bool, error) {
	args := append([]string{"rev-list", "--max-count=1", "--not"}, published(except...)...)
	out, err := s.Git(ctx, Call{Args: append(args, "--not", "--end-of-options", commit)})
	return err == nil && len(strings.TrimSpace(string(out))) == 0, err
}

// unpublished are what refs begin with that don't make a commit safe.
var unpublished = [...]string{"refs/forage/", "refs/stash", "refs/jj/"}

// published are the arguments of rev-list(1) for what is safe on the host: branches, tags and remotes.
func published(except ...string) []string {
	var args []string
	for _, ref := range except {
		args = append(args, "--exclude="+ref)
	}
	// --all with the rest left out: --exclude counts for --branches only without refs/heads/.
	for _, prefix := range unpublished {
		if strings.HasSuffix(prefix, "/") {
			prefix += "*"
		}
		args = append(args, "--exclude="+prefix)
	}
	return append(args, "--exclude=HEAD", "--all")
}

// published says whether one of them is at the commit itself, but for except.
func (refs Refs) published(commit, except string) bool {
	for name, id := range refs.Values {
		if id == commit && name != except && !slices.ContainsFunc(unpublished[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return true
		}
	}
	return false
}
