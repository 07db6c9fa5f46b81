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

// applyJJ brings the work to a bookmark of the user's jj repository. Its git objects are those of a git repository, and what is
// to come of them is found in the same way. No working copy is touched: jj's own commands go on from the bookmark.
func (s *Session) applyJJ(ctx context.Context, o Options) (done Applied, err error) {
	w := s.subject.Workspace
	done.Part = s.Part
	if o.Into == w.Branch || strings.ContainsAny(o.Into, "\"\\\n") || strings.HasPrefix(o.Into, "-") {
		return done, forage.Errorf(forage.ErrUsage, "%q can't be the bookmark", o.Into)
	}
	opened, err := jjrepo.Open(ctx, w.Source)
	if err != nil {
		return done, gone(w.Source, err)
	}
	jj, err := opened.Shadow(s.subject.Places.Scratch)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, jj.Close()) }()
	refs, err := jj.Refs(ctx)
	if err != nil {
		return done, err
	}
	if o.Into == "" {
		if o.Into, err = s.bookmark(refs); err != nil {
			return done, err
		}
	}
	t := &target{repo: s.store, branch: o.Into, commit: refs.Values["refs/heads/"+o.Into]}
	if t.shadow, err = s.store.Shadow(s.subject.Places.Scratch); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if _, err := t.shadow.Line(ctx, "check-ref-format", "refs/heads/"+o.Into); err != nil {
		return done, forage.Errorf(forage.ErrUsage, "%q is no name for a bookmark", o.Into)
	}
	done.Branch, done.Before, done.After = t.branch, t.commit, t.commit
	result, err := s.result(ctx, t, o)
	if err != nil {
		return done, err
	}
	if result.commit == t.commit {
		return done, s.there(t, o)
	}
	changes, err := s.accept(ctx, t, result)
	if err != nil {
		return done, err
	}
	done.After, done.Commits, done.Merged, done.Files = result.commit, result.commits, result.merged, len(changes)
	if o.DryRun {
		return done, nil
	}
	if err := s.bring(ctx, t, result.commit); err != nil {
		return done, err
	}
	if err := s.setBookmark(ctx, jj, t, result.commit); err != nil {
		return done, err
	}
	s.state.Bookmark = t.branch
	return done, s.brought(result)
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
	onward := "go on from the bookmark " + s.Branch + ", which has the commits, with `jj new " + s.Branch + "`"
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
	passing := "forage-apply-" + s.subject.Sandbox
	before, err := jj.JJ(ctx, "--ignore-working-copy", "operation", "log", "--no-graph", "--limit", "1", "--template", "id")
	if err != nil {
		return err
	}
	at, err := t.shadow.Branch(ctx, "refs/heads/"+passing) // of an apply that was killed
	if err != nil {
		return err
	}
	if err := t.shadow.MoveBranch(ctx, "refs/heads/"+passing, at, commit, "forage: apply"); err != nil {
		return err
	}
	_, err = jj.JJ(ctx, "--ignore-working-copy", "git", "import")
	if err == nil {
		_, err = jj.JJ(ctx, "--ignore-working-copy", "bookmark", "set", "--revision", commit, "--", t.branch)
	}
	clean := context.WithoutCancel(ctx)
	if err != nil {
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the bookmark %s can't be moved: %w", t.branch, err), "look at it with `jj bookmark list`, and apply again")
		_, undone := jj.JJ(clean, "--ignore-working-copy", "operation", "restore", strings.TrimSpace(before))
		err = errors.Join(err, undone)
	}
	if removed := t.shadow.DeleteBranch(clean, passing, commit); removed != nil {
		return errors.Join(err, removed)
	}
	if _, imported := jj.JJ(clean, "--ignore-working-copy", "git", "import"); imported != nil {
		return errors.Join(err, fmt.Errorf("taking away the bookmark %s: %w", passing, imported))
	}
	return err
}
