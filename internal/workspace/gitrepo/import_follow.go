package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
)

// choose is the commit that the host's branch is to be at. What git says about commits from inside it says in a staging, where
// they are whole: of what is not followed, nothing comes to the host's repository. It notes in state what has no history in common.
func (i *importing) choose(ctx context.Context, state *imported, at place) (string, error) {
	if tip := state.settled(at); tip != "" {
		return tip, nil
	}
	s, err := i.staged()
	if err != nil {
		return "", err
	}
	since := cmp.Or(at.own, state.Tip)
	if state.Own == at.own && state.Tip != state.Head && s.follows(ctx, at.head, state.Head, since) {
		if state.Unrelated == state.Head {
			state.Unrelated = at.head
		}
		return since, nil // what it goes on from was not followed either
	}
	if err := s.bringWhole(ctx, []string{at.head, since}, i.known(*state)); err != nil {
		return "", err
	}
	i.whole = true
	switch is, err := s.says(ctx, "merge-base", "--is-ancestor", "--end-of-options", since, at.head); {
	case err != nil:
		return "", err
	case is:
		return at.head, nil
	}
	common, err := s.says(ctx, "merge-base", "--end-of-options", since, at.head)
	if err == nil && !common {
		state.Unrelated = at.head
	}
	return since, err
}

// says asks git what it answers with its exit status.
func (s *staging) says(ctx context.Context, question ...string) (bool, error) {
	_, err := s.shadow.Git(ctx, Call{Args: question, Env: readsHostile})
	var exit interface {
		error
		ExitCode() int
	}
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// known are commits that the host's repository has with all that they need.
func (i *importing) known(state imported) map[string]bool {
	known := make(map[string]bool)
	for _, id := range []string{state.Tip, state.Branch, i.w.Base} {
		known[id] = id != ""
	}
	return known
}

// maxLine is how many commits follows looks at.
const maxLine = 1000

// follows says whether nothing but commits with one parent each, which are loose, lead from one commit to an earlier one, and
// another is not among them. That a branch isn't followed is so known again without bringing all that is on it.
func (s *staging) follows(ctx context.Context, id, earlier, but string) bool {
	c := looseCopy{from: s.from, objects: filepath.Join(s.shadow.Dir, "objects"), sha256: s.shadow.Repository.ObjectFormat == "sha256"}
	for range maxLine {
		if id == earlier || id == but {
			return id == earlier
		}
		o, err := c.take(ctx, id)
		if err != nil || o.kind != "commit" {
			return false
		}
		links, err := headerLinks(o.body, "tree ", "parent ")
		if err != nil || len(links) != 2 {
			return false
		}
		id = links[1]
	}
	return false
}

// bringWhole brings tips with all that they need, or fails.
func (s *staging) bringWhole(ctx context.Context, tips []string, stop map[string]bool) error {
	err := s.bring(ctx, tips, stop)
	if err == nil {
		err = s.shadow.connected(ctx, tips)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	brought := s.bringAll(ctx)
	if ctx.Err() != nil {
		return brought
	}
	if err = s.shadow.connected(ctx, tips); err != nil {
		return errors.Join(err, brought)
	}
	return nil
}

// connected fails when something is missing that tips need.
func (s *Shadow) connected(ctx context.Context, tips []string) error {
	if len(tips) == 0 {
		return nil
	}
	_, err := s.Git(ctx, Call{
		Args:  []string{"rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"},
		Stdin: []byte(strings.Join(tips, "\n") + "\n"), Env: readsHostile,
	})
	return err
}
