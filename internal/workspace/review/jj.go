package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// prepareJJ is Prepare for a bookmark of the user's jj repository. Its git objects are those of a git repository, and what is
// to come of them is found in the same way. No working copy is touched: jj's own commands go on from the bookmark.
func (s *Session) prepareJJ(ctx context.Context, o Options) (done Applied, install Install, err error) {
	done.Part, done.Notes = s.Part, s.leftOut()
	if s.nothing() && o.Into == "" {
		return done, nil, nil
	}
	if strings.ContainsAny(o.Into, "\"\\\n") || strings.HasPrefix(o.Into, "-") {
		return done, nil, forage.Errorf(forage.ErrUsage, "%q can't be the bookmark", o.Into)
	}
	jj, refs, err := s.openJJ(ctx)
	if err != nil {
		return done, nil, err
	}
	bookmark := o.Into
	if bookmark == "" {
		if bookmark, err = s.bookmark(refs); err != nil {
			return done, nil, err
		}
	}
	ref := "refs/heads/" + bookmark
	if _, err := jj.Git.Line(ctx, "check-ref-format", ref); err != nil {
		return done, nil, forage.Errorf(forage.ErrUsage, "%q is no name for a bookmark", bookmark)
	}
	t := &target{repo: s.store, branch: bookmark, commit: refs.Values[ref], direct: s.subject.direct()}
	if err := s.aim(ctx, t.branch, t.commit); err != nil || s.nothing() {
		return done, nil, err
	}
	result, err := s.plan(ctx, t, o, &done)
	if err != nil || result.commit == t.commit || o.DryRun {
		return done, nil, err
	}
	if err := s.staging.Bring(ctx, t.repo, result.commit, t.commit, s.Base); err != nil {
		return done, nil, err
	}
	return done, func(ctx context.Context) (Applied, error) {
		if now, err := jj.Refs(ctx); err != nil || now.Values[ref] != t.commit { // another part of the workspace went there too
			return s.Apply(ctx, o)
		}
		return done, s.keep(ctx, t, result, func() error { return s.setBookmark(ctx, jj, t, result.commit) })
	}, nil
}

// openJJ opens the user's jj repository until the session is closed.
func (s *Session) openJJ(ctx context.Context) (*jjrepo.Shadow, gitrepo.Refs, error) {
	opened, err := jjrepo.Open(ctx, s.subject.repository())
	if err != nil {
		return nil, gitrepo.Refs{}, gone(s.subject.repository(), err)
	}
	jj, err := opened.Shadow(ctx, s.subject.Places.Scratch)
	if err != nil {
		return nil, gitrepo.Refs{}, err
	}
	s.opened = append(s.opened, jj.Close)
	refs, err := jj.Refs(ctx)
	return jj, refs, err
}

// bookmarkAt is the commit of a bookmark; "" when there is none.
func (s *Session) bookmarkAt(ctx context.Context, branch string) (string, error) {
	if branch == "" {
		return "", nil
	}
	_, refs, err := s.openJJ(ctx)
	return refs.Values["refs/heads/"+branch], err
}

// bookmark is where the work goes if nobody says: the bookmark of the last time, or else the one that stands where the
// work began. Bookmarks of sandboxes don't count.
func (s *Session) bookmark(refs gitrepo.Refs) (string, error) {
	const heads, ours = "refs/heads/", "forage-"
	if refs.Values[heads+s.state.Bookmark] != "" {
		return s.state.Bookmark, nil
	}
	var at, shown, ways []string
	for _, ref := range slices.Sorted(maps.Keys(refs.Values)) {
		name, ok := strings.CutPrefix(ref, heads)
		if ok && refs.Values[ref] == s.Base && !strings.HasPrefix(name, ours) {
			at, shown, ways = append(at, name), append(shown, term.Escape(name)), append(ways, "--into "+term.Escape(name))
		}
	}
	onward := "--into " + s.Branch + " makes a new one, from which `jj new " + s.Branch + "` goes on"
	switch len(at) {
	case 1:
		return at[0], nil
	case 0:
		return "", forage.WithHint(
			forage.Errorf(forage.ErrRefused, "no bookmark stands where the work of %s began", s.subject.Sandbox), "name one with --into; or "+onward)
	}
	return "", forage.WithHint(
		forage.Errorf(forage.ErrRefused, "several bookmarks stand where the work of %s began: %s", s.subject.Sandbox, strings.Join(shown, ", ")),
		"choose one with "+strings.Join(ways, " or ")+"; or "+onward)
}

// setBookmark has jj take the commit in, by a bookmark that is there for no longer, and then moves the user's. What jj did is
// undone as a whole when it fails: `jj undo` of the user's does the same.
func (s *Session) setBookmark(ctx context.Context, jj *jjrepo.Shadow, t *target, commit string) error {
	passing := passingBookmark(s.subject)
	before, err := jj.JJ(ctx, "--ignore-working-copy", "operation", "log", "--no-graph", "--limit", "1", "--template", "id")
	if err != nil {
		return err
	}
	if err := jj.Git.MoveBranch(ctx, "refs/heads/"+passing, "", commit, "forage: apply"); err != nil {
		return err
	}
	err = jj.GitImport(ctx)
	if err == nil {
		err = jj.Change(ctx, "bookmark", "set", "--revision", commit, "--", t.branch)
	}
	clean := context.WithoutCancel(ctx)
	if err != nil {
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the bookmark %s can't be moved: %w", t.branch, err), "look at it with `jj bookmark list`, and apply again")
		err = errors.Join(err, jj.Change(clean, "operation", "restore", strings.TrimSpace(before)))
	}
	if removed := jj.Git.DeleteBranch(clean, passing, commit); removed != nil {
		return errors.Join(err, removed)
	}
	if imported := jj.GitImport(clean); imported != nil {
		return errors.Join(err, fmt.Errorf("taking away the bookmark %s: %w", passing, imported))
	}
	return err
}

// passingBookmark is there for as long as jj takes a commit in.
func passingBookmark(subject Subject) string { return "forage-apply-" + subject.Sandbox }

// recoverJJ takes away the bookmark that an apply left which was killed. All else is one operation of jj's each.
func recoverJJ(ctx context.Context, subject Subject) (err error) {
	opened, err := jjrepo.Open(ctx, subject.repository())
	if err != nil {
		return nil // who needs it says so
	}
	jj, err := opened.Shadow(ctx, subject.Places.Scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jj.Close()) }()
	passing := passingBookmark(subject)
	at, err := jj.Git.Branch(ctx, "refs/heads/"+passing)
	if err != nil || at == "" {
		return err
	}
	if err := jj.Git.DeleteBranch(ctx, passing, at); err != nil {
		return err
	}
	return jj.GitImport(ctx)
}
