package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// openJJ opens the user's jj repository until the session is closed.
func (s *Session) openJJ(ctx context.Context) (*jjrepo.Shadow, gitrepo.Refs, error) {
	jj, err := openJJ(ctx, s.subject)
	if err != nil {
		return nil, gitrepo.Refs{}, err
	}
	s.opened = append(s.opened, jj.Close)
	refs, err := jj.Refs(ctx)
	return jj, refs, err
}

func openJJ(ctx context.Context, subject Subject) (*jjrepo.Shadow, error) {
	opened, err := jjrepo.Open(ctx, subject.repository())
	if err != nil {
		return nil, gone(subject.repository(), err)
	}
	return opened.Shadow(ctx, subject.Places.Scratch)
}

// jjTarget finds a bookmark of the user's. Its git objects are those of a git repository. No working copy is touched: jj's own
// commands go on from the bookmark.
func (s *Session) jjTarget(ctx context.Context, bookmark string) (*target, error) {
	if strings.ContainsAny(bookmark, "\"\\\n") || strings.HasPrefix(bookmark, "-") {
		return nil, forage.Errorf(forage.ErrUsage, "%q can't be the bookmark", bookmark)
	}
	jj, refs, err := s.openJJ(ctx)
	if err != nil {
		return nil, err
	}
	if bookmark == "" {
		if bookmark, err = s.bookmark(refs); err != nil {
			return nil, err
		}
	}
	if _, err := jj.Git.Line(ctx, "check-ref-format", "refs/heads/"+bookmark); err != nil {
		return nil, forage.Errorf(forage.ErrUsage, "%q is no name for a bookmark", bookmark)
	}
	t := bookmarkTarget(jj, s.subject, bookmark)
	t.repo, t.commit = s.store, refs.Values["refs/heads/"+bookmark]
	return t, s.aim(ctx, bookmark, t.commit)
}

func bookmarkTarget(jj *jjrepo.Shadow, subject Subject, bookmark string) *target {
	t := &target{repo: jj.Git.Repository, git: jj.Git, branch: bookmark, direct: subject.direct(), close: jj.Close}
	t.at = func(ctx context.Context) (string, error) {
		refs, err := jj.Refs(ctx)
		return refs.Values["refs/heads/"+bookmark], err
	}
	t.move = func(ctx context.Context, to string) error { return setBookmark(ctx, jj, subject, bookmark, to) }
	return t
}

// bookmarkAt is the commit of a bookmark; "" when there is none.
func (s *Session) bookmarkAt(ctx context.Context, branch string) (string, error) {
	if branch == "" {
		return "", nil
	}
	_, refs, err := s.openJJ(ctx)
	return refs.Values["refs/heads/"+branch], err
}

// bookmark is where the work goes if the user says nothing: the bookmark of the last time, or else the one that stands where the
// work began. Bookmarks of sandboxes don't count.
func (s *Session) bookmark(refs gitrepo.Refs) (string, error) {
	const heads, ours = "refs/heads/", "forage-"
	if refs.Values[heads+s.state.Bookmark] != "" {
		return s.state.Bookmark, nil
	}
	var at []string
	for _, ref := range slices.Sorted(maps.Keys(refs.Values)) {
		name, ok := strings.CutPrefix(ref, heads)
		if ok && refs.Values[ref] == s.Base && !strings.HasPrefix(name, ours) {
			at = append(at, name)
		}
	}
	if len(at) == 1 {
		return at[0], nil
	}
	hint := "--into " + s.Branch + " makes a new one, from which `jj new " + s.Branch + "` goes on"
	if len(at) == 0 {
		return "", forage.WithHint(forage.Errorf(forage.ErrRefused, "no bookmark stands where the work of %s began", s.subject.Sandbox), "name one with --into; or "+hint)
	}
	return "", forage.WithHint(
		forage.Errorf(forage.ErrRefused, "several bookmarks stand where the work of %s began: %s", s.subject.Sandbox, some(at)),
		"choose one with --into "+some(at[:1])+"; or "+hint)
}

// setBookmark has jj take the commit in, by a bookmark that is there for no longer, and then moves the user's. What jj did is
// undone as a whole when it fails: `jj undo` of the user's does the same.
func setBookmark(ctx context.Context, jj *jjrepo.Shadow, subject Subject, bookmark, commit string) error {
	before, err := jj.JJ(ctx, "--ignore-working-copy", "operation", "log", "--no-graph", "--limit", "1", "--template", "id")
	if err != nil {
		return err
	}
	if err := jj.Git.MoveBranch(ctx, "refs/heads/"+passingBookmark(subject), "", commit, "forage: apply"); err != nil {
		return err
	}
	err = jj.GitImport(ctx)
	if err == nil {
		err = jj.Change(ctx, "bookmark", "set", "--revision", commit, "--", bookmark)
	}
	clean := context.WithoutCancel(ctx)
	if err != nil {
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the bookmark %s can't be moved: %w", bookmark, err), "look at it with `jj bookmark list`, and apply again")
		err = errors.Join(err, jj.Change(clean, "operation", "restore", strings.TrimSpace(before)))
	}
	return errors.Join(err, passed(clean, jj, subject))
}

// passingBookmark is there for as long as jj takes a commit in.
func passingBookmark(subject Subject) string { return "forage-apply-" + subject.Sandbox }

// passed takes the passing bookmark away, if it is there.
func passed(ctx context.Context, jj *jjrepo.Shadow, subject Subject) error {
	name := passingBookmark(subject)
	at, err := jj.Git.Branch(ctx, "refs/heads/"+name)
	if err == nil && at != "" {
		if err = jj.Git.DeleteBranch(ctx, name, at); err == nil {
			err = jj.GitImport(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("taking away the bookmark %s: %w", name, err)
	}
	return nil
}

// repairJJ opens the bookmark of an apply that was killed. All else that it did is one operation of jj's each.
func repairJJ(ctx context.Context, subject Subject, bookmark string) (*target, error) {
	jj, err := openJJ(ctx, subject)
	if err != nil {
		return nil, err
	}
	t := bookmarkTarget(jj, subject, bookmark)
	if err = passed(ctx, jj, subject); err == nil {
		t.commit, err = t.at(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}
