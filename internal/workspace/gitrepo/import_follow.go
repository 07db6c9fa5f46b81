package gitrepo

import (
	"cmp"
	"context"
	"errors"
)

// choose is the commit that the host's branch, which is at now, is to be at. What git says about commits from inside it says in
// the staging: of what is not followed, nothing comes to the host's repository. It notes in state what has no history in common.
func (i *importing) choose(ctx context.Context, state *imported, at place, now string) (string, error) {
	if tip := state.settled(at); tip != "" {
		return tip, nil
	}
	since := cmp.Or(at.own, state.Tip)
	s, err := i.fetch(ctx, now, at.head, since)
	if err != nil {
		return "", err
	}
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
func (s *Shadow) says(ctx context.Context, question ...string) (bool, error) {
	_, err := s.Git(ctx, Call{Args: question, Env: readsHostile})
	if exitedWithOne(err) {
		return false, nil
	}
	return err == nil, err
}

// exitedWithOne says whether git has answered no.
func exitedWithOne(err error) bool {
	var exit interface {
		error
		ExitCode() int
	}
	return errors.As(err, &exit) && exit.ExitCode() == 1
}
