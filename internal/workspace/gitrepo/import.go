package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/workspace"
)

// Import brings the commits of the private metadata to w.Branch in the host's repository: those of
// the commit that is checked out inside, on whatever branch, as long as it goes on from the
// sandbox's own branch; else those of that branch. Which commits these are is read as data; git
// brings them: see fetch. It costs no process when nothing has changed. A branch that the user
// moved meanwhile is not touched: that is workspace.Status.Problem. Of a direct workspace commits
// are brought only when the host's repository lacks them.
func Import(ctx context.Context, w forage.Workspace, scratch string) (_ workspace.Update, err error) {
	if w.Repository == nil || w.Branch == "" {
		return workspace.Update{}, nil
	}
	if state, at, err := peek(w); err != nil || state.done(w, at) {
		return workspace.Update{Before: state.Branch, After: state.Branch}, err
	}
	unlock, err := lockImport(ctx, w)
	if err != nil {
		return workspace.Update{}, err
	}
	defer unlock()
	i, err := openImport(ctx, Open, w, scratch)
	if err != nil {
		return workspace.Update{}, err
	}
	defer func() { err = errors.Join(err, i.close()) }()
	if err = i.unread; err != nil || i.state.done(w, i.at) { // somebody may have done it
		return workspace.Update{Before: i.state.Branch, After: i.state.Branch}, err
	}
	return i.run(ctx, i.state, i.at)
}

// importing is one import, with everything open that it needs.
type importing struct {
	w       forage.Workspace
	host    *Shadow
	from    *metadata
	scratch string
	stage   *Shadow // the quarantine
	state   imported
	at      place // where the work inside was when this was opened
	unread  error // why that isn't known
}

func openImport(ctx context.Context, open opener, w forage.Workspace, scratch string) (_ *importing, err error) {
	r, err := storeOf(ctx, open, w)
	if err != nil {
		return nil, err
	}
	from, err := openInside(w)
	if err != nil {
		return nil, err
	}
	host, err := r.Shadow(scratch)
	if err != nil {
		from.close()
		return nil, err
	}
	i := &importing{w: w, host: host, from: from, scratch: scratch}
	if i.state, err = loadImported(w); err == nil {
		i.at, i.unread = placeInside(from, w, i.state)
		err = i.withHeads(host)
	}
	if err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

// private is the git directory that has the objects inside.
func (i *importing) private() string { return filepath.Join(i.w.Repository.Dir, "git") }

func (i *importing) close() error {
	i.from.close()
	if i.stage != nil {
		return errors.Join(i.stage.Close(), i.host.Close())
	}
	return i.host.Close()
}

// quarantine opens what commits come to: anew, without what came before.
func (i *importing) quarantine() (err error) {
	if i.stage != nil {
		err = i.stage.Close()
	}
	if err == nil {
		i.stage, err = i.host.Repository.quarantine(i.scratch)
	}
	if err == nil {
		err = i.withHeads(i.stage)
	}
	return err
}

// fetch brings commits from inside to the quarantine.
func (i *importing) fetch(ctx context.Context, ids ...string) error {
	err := i.stage.fetch(ctx, i.private(), ids...)
	if err == nil {
		err = i.stage.sized(ctx, ids...)
	}
	if forage.Hint(err) != "" && i.w.Repository.Kind == forage.RepositoryJJ {
		err = forage.WithHint(err, "inside, `jj log` shows the commits, and `jj abandon` or `jj squash` takes one away; until then they stay inside")
	}
	return err
}

func (i *importing) run(ctx context.Context, state imported, at place) (workspace.Update, error) {
	ref := TipRef(i.w)
	now, err := i.host.Branch(ctx, ref)
	update := workspace.Update{Before: now, After: now}
	if err != nil || moved(state, now) && now != at.own && now != at.head {
		return update, err // see Status
	}
	if err := i.switched(ctx, at); err != nil {
		return update, err
	}
	tip, err := i.choose(ctx, state, at)
	if err != nil {
		return update, fmt.Errorf("bringing commits from inside, where %s is checked out: %w", at.called(), err)
	}
	if now != tip && (state.Tip != tip || now != "" && now == state.Next) { // a crash may have left it at Next
		if moved(state, now) {
			return update, nil
		}
		moves, err := i.bring(ctx, tip, now)
		if err != nil {
			return update, err
		}
		if moves {
			state.Branch, state.Next = now, tip
			if err := saveImported(i.w, state); err != nil {
				return update, err
			}
			err := i.stage.admit()
			if err == nil {
				err = i.host.MoveBranch(ctx, ref, now, tip, "forage: commits from inside")
			}
			if errors.Is(err, errMoved) {
				return update, nil
			}
			if err != nil {
				return update, err
			}
			now = tip
		}
	}
	update.After = now
	if !moved(state, now) || now == tip {
		state.Branch = now
	}
	if state.decided(at, tip); state.Index != state.Branch {
		state.Index = "" // from here on it may be at either
	}
	if err := saveImported(i.w, state); err != nil || !hasTree(i.w) || state.Branch != now {
		return update, err
	}
	return update, i.bringIndex(ctx, state)
}

// switched fails when the user has switched the folder to another branch, and nobody has done so
// inside: what is committed inside would have the other branch's files.
func (i *importing) switched(ctx context.Context, at place) error {
	if i.w.Mode != forage.WorkspaceDirect || i.w.Repository.Head == "" || at.on != branchRef(i.w.Repository.Head) {
		return nil
	}
	r, err := OpenToRead(ctx, i.w.Path)
	if err != nil || r.Head == i.w.Repository.Head {
		return err
	}
	on := cmp.Or(r.Head, fmt.Sprintf("%.12s", r.Detached))
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%s is on %s on the host and on %s inside: commits from inside may have files of the other branch, and are not brought",
			i.w.Path, on, i.w.Repository.Head),
		"`git switch "+i.w.Repository.Head+"` in "+i.w.Path+" brings them, or make them anew inside on a branch that is called "+on)
}

// moved says whether somebody else has moved the branch on the host, now being where it is. One
// that was deleted is made again: nothing is lost by that.
func moved(state imported, now string) bool {
	return now != "" && now != state.Branch && now != state.Next
}

// bring brings a commit to the quarantine, and says whether the branch is to follow. It isn't where
// the host's repository has the commit and no branch of ours: it came from there.
func (i *importing) bring(ctx context.Context, tip, now string) (moves bool, err error) {
	if err = i.quarantine(); err == nil {
		err = i.fetch(ctx, tip)
	}
	if err != nil {
		return false, fmt.Errorf("bringing commits from inside: %w", err)
	}
	if now != "" || i.w.Mode != forage.WorkspaceDirect {
		return true, nil
	}
	has, err := i.stage.contains(ctx, tip)
	return !has, err
}

// bringIndex brings the index of the working folder on the host to where the branch is.
func (i *importing) bringIndex(ctx context.Context, state imported) error {
	if state.Index == state.Branch {
		return nil
	}
	if err := i.host.bringIndexTo(ctx, i.w.Path, state.Branch); err != nil {
		return fmt.Errorf("bringing the index of %s up to date: %w", i.w.Path, err)
	}
	state.Index = state.Branch
	return saveImported(i.w, state)
}

// choose is the commit that the host's branch is to be at. A git in the jail says whether what is
// checked out goes on from the sandbox's branch: a lie would only choose another commit of the
// agent's.
func (i *importing) choose(ctx context.Context, state imported, at place) (string, error) {
	if tip := state.settled(at); tip != "" {
		return tip, nil
	}
	since := cmp.Or(at.own, state.Tip)
	follows, err := i.host.asks(ctx, i.private(), "merge-base", "--is-ancestor", "--end-of-options", since, at.head)
	if err != nil || follows {
		return at.head, err
	}
	return since, nil
}

// exitedWithOne says whether git has answered no.
func exitedWithOne(err error) bool {
	var exit interface {
		error
		ExitCode() int
	}
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

// Bounds of the list of files and folders that a commit from inside changes. A few objects are
// enough for a tree that names billions of files: each git on the host that makes an index of one
// would take all memory for it.
const (
	maxListed     = 512 << 20 // bytes: millions of files
	maxTreePath   = 4096      // bytes of one: PATH_MAX
	maxListMemory = 2 << 30   // what git may have for it
	listCPU       = 5 * time.Second
)

// sized refuses tips when they, or a commit that comes with them and is on no ref of the repository
// yet, have more files than any working folder has.
func (s *Shadow) sized(ctx context.Context, tips ...string) error {
	if len(tips) == 0 {
		return nil
	}
	left := listLimit{bytes: maxListed}
	_, err := s.Git(ctx, Call{
		Args:  []string{"log", "--root", "-m", "-t", "--no-renames", "--name-only", "--format=", "--stdin", "--not", "--all"},
		Stdin: []byte(strings.Join(tips, "\n") + "\n"), Env: readsHostile, Memory: maxListMemory, CPU: listCPU, Timeout: deadline.Answer, Writer: &left,
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "a commit from inside has too many files, or too long paths: %w", err),
		"leave that commit out (git rebase -i); until then the commits stay inside")
}

// listLimit is how many bytes may still be listed, and how many the last line has.
type listLimit struct{ bytes, line int }

func (l *listLimit) Write(text []byte) (int, error) {
	l.bytes -= len(text)
	for line := range bytes.Lines(text) {
		if l.line += len(line); l.bytes < 0 || l.line > maxTreePath {
			return 0, errors.New("the list is too long")
		}
		if line[len(line)-1] == '\n' {
			l.line = 0
		}
	}
	return len(text), nil
}
