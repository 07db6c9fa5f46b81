package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"strings"
)

// choose is the commit that the host's branch is to be at. What git says about commits from inside it says in a staging, where
// they are whole: of what is not followed, nothing comes to the host's repository.
func (i *importing) choose(ctx context.Context, state imported, at place) (string, error) {
	if tip := state.settled(at); tip != "" {
		return tip, nil
	}
	s, err := i.staged()
	if err != nil {
		return "", err
	}
	since := cmp.Or(at.own, state.Tip)
	if err := s.bringWhole(ctx, []string{at.head, since}, i.known(state)); err != nil {
		return "", err
	}
	i.whole = true
	_, err = s.shadow.Git(ctx, Call{Args: []string{"merge-base", "--is-ancestor", "--end-of-options", since, at.head}, Env: readsHostile})
	var exit interface {
		error
		ExitCode() int
	}
	switch {
	case err == nil:
		return at.head, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1: // it says no
		return cmp.Or(at.own, state.Tip), nil
	}
	return "", err
}

// known are commits that the host's repository has with all that they need.
func (i *importing) known(state imported) map[string]bool {
	known := make(map[string]bool)
	for _, id := range []string{state.Tip, state.Branch, i.w.Base} {
		known[id] = id != ""
	}
	return known
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
