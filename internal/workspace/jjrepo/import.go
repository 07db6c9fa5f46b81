package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// errMoved says that the user moved the bookmark that commits are brought to.
var errMoved = errors.New("the bookmark was moved on the host")

// inside is what the private repository is at, with its objects in a staging of ours.
type inside struct {
	view    View
	staging *gitrepo.Shadow
	work    string   // the commit that the bookmark stands for: see finished; "" is the root
	dirty   string   // the working copy's own commit where it isn't work: it is only a copy of the files. ""
	others  []string // heads with commits that neither the host nor work has
}

// look reads the private repository and takes its commits to a staging. It runs nothing that came from inside.
func (s *Shadow) look(ctx context.Context, w forage.Workspace) (_ *inside, err error) {
	view, err := viewIn(filepath.Join(w.Repository.Dir, jjFolder))
	if err != nil {
		return nil, err
	}
	in := &inside{view: view}
	tips := notRoot(append([]string{view.at()}, view.Heads...))
	in.staging, err = s.Repository.Git.Take(ctx, filepath.Join(w.Repository.Dir, gitFolder), tips)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.staging.Close())
		}
	}()
	if in.work, in.dirty, err = finished(ctx, in.staging, view.at()); err != nil {
		return nil, err
	}
	if err = in.staging.Sized(ctx, notRoot([]string{in.work})...); err != nil {
		return nil, err
	}
	in.others, err = in.freshHeads(ctx)
	return in, err
}

// freshHeads are the heads with commits that neither the host nor work has. There may be as many as whoever is inside
// likes, so that git is asked once for all.
func (in *inside) freshHeads(ctx context.Context) ([]string, error) {
	heads := slices.DeleteFunc(notRoot(in.view.Heads), func(head string) bool { return head == in.dirty || head == in.work })
	if len(heads) == 0 {
		return nil, nil
	}
	list, err := in.staging.Git(ctx, gitrepo.Call{
		Args:  append([]string{"rev-list", "--stdin", "--not", "--all"}, notRoot([]string{in.work})...),
		Stdin: []byte(strings.Join(heads, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	fresh := make(map[string]bool)
	for id := range strings.Lines(string(list)) {
		fresh[strings.TrimSpace(id)] = true
	}
	return slices.DeleteFunc(heads, func(head string) bool { return !fresh[head] }), nil
}

// notRoot leaves out the root, which git has no commit for, and what is "".
func notRoot(ids []string) []string {
	var rest []string
	for _, id := range ids {
		if strings.Trim(id, "0") != "" {
			rest = append(rest, id)
		}
	}
	return rest
}

// finished is the commit that stands for the work: the working copy's, or its parent while it has no
// description. jj makes such a commit of whatever is in the files, and replaces it with each command.
func finished(ctx context.Context, git *gitrepo.Shadow, at string) (work, dirty string, err error) {
	if strings.Trim(at, "0") == "" {
		return "", "", nil
	}
	out, err := git.Git(ctx, gitrepo.Call{Args: []string{"cat-file", "commit", at}, Output: 16 << 20})
	if err != nil {
		return "", "", err
	}
	parents, err := gitrepo.Parents(out)
	if err != nil {
		return "", "", err
	}
	_, message, _ := strings.Cut(string(out), "\n\n")
	if strings.TrimSpace(message) != "" || len(parents) > 1 {
		return at, "", nil
	}
	if len(parents) == 0 {
		return "", at, nil
	}
	return parents[0], at, nil
}

// Import brings the work in the private repository to the bookmark w.Branch. A bookmark that the user moved
// meanwhile is not touched; Unsaved says so.
func (s *Shadow) Import(ctx context.Context, w forage.Workspace) (_ workspace.Update, err error) {
	unlock, err := lock(ctx, stateFile(*w.Repository)+".lock") // the supervisor imports, and so does whoever looks
	if err != nil {
		return workspace.Update{}, err
	}
	defer unlock()
	last, err := readState(*w.Repository)
	if err != nil {
		return workspace.Update{}, err
	}
	at, err := s.Git.Branch(ctx, "refs/heads/"+w.Branch)
	if err != nil {
		return workspace.Update{}, err
	}
	same := workspace.Update{Before: at, After: at}
	if view, err := viewIn(filepath.Join(w.Repository.Dir, jjFolder)); err != nil || at == last.Branch && last.brought(view) {
		return same, err
	}
	in, err := s.look(ctx, w)
	if err != nil {
		return same, err
	}
	defer func() { err = errors.Join(err, in.staging.Close()) }()
	if in.work == "" {
		return same, nil
	}
	news, err := s.news(ctx, in, w, at)
	if err != nil {
		return same, err
	}
	if news {
		if err := s.moved(ctx, w, at, last); errors.Is(err, errMoved) {
			return same, nil
		} else if err != nil {
			return same, err
		}
		if err := s.bring(ctx, in, w, at, last); err != nil {
			return same, err
		}
		same.After = in.work
	}
	if !news && !last.ours(at) {
		return same, nil // where the user put it
	}
	return same, state{Branch: same.After, Operations: in.view.Operations}.write(*w.Repository)
}

// news says whether the bookmark has to be moved, or made: only for commits that the repository lacks.
func (s *Shadow) news(ctx context.Context, in *inside, w forage.Workspace, at string) (bool, error) {
	if at != "" || w.Base == "" {
		return at != in.work, nil
	}
	fresh, err := in.staging.Line(ctx, "rev-list", "--max-count=1", in.work, "--not", w.Base)
	return fresh != "", err
}

// bring puts the bookmark where the work is.
func (s *Shadow) bring(ctx context.Context, in *inside, w forage.Workspace, at string, last state) error {
	if err := in.staging.Hand(ctx, []string{in.work}); err != nil {
		return err
	}
	last.Branch, last.Next = at, in.work
	if err := last.write(*w.Repository); err != nil {
		return err
	}
	if err := s.Git.MoveBranch(ctx, "refs/heads/"+w.Branch, at, in.work, "forage: commits from inside"); err != nil {
		return err
	}
	if err := s.GitImport(ctx); err != nil {
		return err
	}
	return s.hide(ctx, at)
}

// hide has jj no longer show commits that were brought before, and that nothing else is about: no bookmark, no tag, no working copy,
// no other commit. Otherwise each commit that was rewritten inside would stay in the user's log, in all its versions.
func (s *Shadow) hide(ctx context.Context, old string) error {
	if old == "" {
		return nil
	}
	revision := fmt.Sprintf("::present(%[1]s) ~ ::(bookmarks() | remote_bookmarks() | tags() | working_copies() | root() | (visible_heads() ~ present(%[1]s)))", old)
	commits, err := s.commitsOf(ctx, revision)
	if err != nil || len(commits) == 0 {
		return err
	}
	return s.Change(ctx, "abandon", "--ignore-immutable", "--", revision)
}

// moved says why the bookmark can't be moved by us; nil: it can.
func (s *Shadow) moved(ctx context.Context, w forage.Workspace, at string, last state) error {
	if !last.ours(at) {
		return fmt.Errorf("%w: %s", errMoved, w.Branch)
	}
	commits, err := s.commitsOf(ctx, "bookmarks(exact:"+exactly(w.Branch)+")")
	if err != nil {
		return err
	}
	if in := strings.Join(commits, " "); in != at && last.Branch == at {
		return fmt.Errorf("%w: %s", errMoved, w.Branch)
	}
	return nil
}
