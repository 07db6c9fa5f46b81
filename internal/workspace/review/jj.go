package review

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
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
		if bookmark, err = s.bookmark(ctx, refs); err != nil {
			return nil, err
		}
	}
	if _, err := jj.Git.Line(ctx, "check-ref-format", "refs/heads/"+bookmark); err != nil {
		return nil, forage.Errorf(forage.ErrUsage, "%q is no name for a bookmark", bookmark)
	}
	t := &target{repo: s.store, git: jj.Git, jj: jj, branch: bookmark, commit: refs.Values["refs/heads/"+bookmark], direct: s.subject.direct()}
	return t, s.aim(ctx, bookmark, t.commit)
}

// bookmark is where the work goes if the user says nothing: the bookmark of the last time, or else the one that stands where the
// work began, or went on from there. Bookmarks of sandboxes don't count.
func (s *Session) bookmark(ctx context.Context, refs gitrepo.Refs) (string, error) {
	const heads, ours = "refs/heads/", "forage-"
	if last := s.state.bookmark(); refs.Values[heads+last] != "" {
		return last, nil
	}
	var at, after []string
	for _, ref := range slices.Sorted(maps.Keys(refs.Values)) {
		switch name, ok := strings.CutPrefix(ref, heads); {
		case !ok || strings.HasPrefix(name, ours):
		case refs.Values[ref] == s.Base:
			at = append(at, name)
		case s.Base != "" && s.isAncestor(ctx, s.Base, refs.Values[ref]):
			after = append(after, name)
		}
	}
	if len(at) == 0 {
		at = after
	}
	if len(at) == 1 {
		return at[0], nil
	}
	hint := "--into " + s.Branch + " makes a new one, from which `jj new " + s.Branch + "` goes on"
	if len(at) == 0 {
		return "", forage.WithHint(forage.Errorf(forage.ErrRefused, "no bookmark stands where the work of %s began, or after that", s.subject.Sandbox), "name one with --into; or "+hint)
	}
	return "", forage.WithHint(
		forage.Errorf(forage.ErrRefused, "several bookmarks stand where the work of %s began, or after that: %s", s.subject.Sandbox, term.Names(at)),
		"choose one with --into "+term.Names(at[:1])+"; or "+hint)
}

// repairJJ opens the bookmark of an apply that was killed. jj may have to take in yet that git's branch moved.
func repairJJ(ctx context.Context, subject Subject, bookmark string) (*target, error) {
	jj, err := openJJ(ctx, subject)
	if err != nil {
		return nil, err
	}
	t := &target{repo: jj.Git.Repository, git: jj.Git, jj: jj, branch: bookmark, direct: subject.direct(), close: jj.Close}
	if err = jj.GitImport(ctx); err == nil {
		t.commit, err = t.at(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}
