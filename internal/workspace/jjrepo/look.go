package jjrepo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/jail"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// The private repository was written inside. Nothing on the host reads it: jj is asked for its
// heads in a jail, which sees it read-only, with a configuration and a git directory of ours. git
// then fetches them by their ids.

// head is a commit that the private repository shows and no other visible one is based on, or a
// working copy.
type head struct {
	id      string
	parents []string // without the root
	named   bool     // it has a description
	here    bool     // the sandbox's folder is at it
	copies  bool     // some folder is
}

// shows has jj say what a head has.
const (
	heads = `visible_heads() | working_copies()`
	shows = `commit_id ++ "\t" ++ if(description, "named ") ++ if(current_working_copy, "here ") ++ if(working_copies, "copies ")` +
		` ++ "\t" ++ parents.map(|p| p.commit_id()).join(" ") ++ "\n"`
)

// Bounds of a look. jj waits for ever for a file that is a FIFO.
const (
	maxOperations = 16
	lookMemory    = 4 << 30
	lookOutput    = 16 << 20
)

// operations are the last operations of a private repository, the newest first: one, but where jj
// has not merged those yet that went on side by side.
func operations(dir string) ([]string, error) {
	_ = workspace.Permit(dir, 0o500) // else opening says why not
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder, err := root.OpenFile("repo/op_heads/heads", os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	entries, err := folder.ReadDir(maxOperations + 2)
	if err != nil {
		return nil, fmt.Errorf("finding the last operation: %w", err)
	}
	ended := map[string]time.Time{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !isHex(entry.Name(), 128) {
			continue
		}
		ended[entry.Name()] = info.ModTime()
	}
	if len(ended) == 0 || len(ended) > maxOperations {
		return nil, damaged(fmt.Errorf("it has %d last operations", len(ended)))
	}
	return slices.SortedFunc(maps.Keys(ended), func(a, b string) int {
		return cmp.Or(ended[b].Compare(ended[a]), strings.Compare(a, b))
	}), nil
}

// state is what jj's answer about a private repository depends on: whether the files are there, and
// its last operations.
func state(w forage.Workspace) (string, error) {
	last, err := operations(filepath.Join(w.Repository.Dir, jjFolder))
	return fmt.Sprint(exists(w.Path), " ", strings.Join(last, " ")), err
}

// isHex says whether id has one of these numbers of hexadecimal digits: BLAKE2b-512 is an operation's
// 128, a commit of git's has 40 or 64.
func isHex(id string, digits ...int) bool {
	return slices.Contains(digits, len(id)) && strings.Trim(id, "0123456789abcdef") == ""
}

func damaged(err error) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUnsupported, "the sandbox's jj repository can't be read: %w", err),
		"inside, `jj status` says more, and `jj op log` with `jj op restore` leads back; `down --force` keeps all of it as it is")
}

// lookScript asks at each operation. jj waits for ever for a file that is a FIFO, and follows
// links.
const lookScript = `[ -z "$(find "$1" ! -type f ! -type d -print -quit)" ] || { echo 'it has more than files and folders' >&2; exit 1; }
revisions=$2 template=$3
shift 3
for operation; do
	jj --quiet --ignore-working-copy --at-operation "$operation" log --no-graph --revisions "$revisions" --template "$template"
done`

// ask has jj in a jail say the heads of w's private repository at those operations. Its index is
// one of ours, which is kept.
func (s *Shadow) ask(ctx context.Context, w forage.Workspace, operations []string) ([]head, error) {
	private, at := workspace.Resolved(w.Repository.Dir), workspace.Resolved(filepath.Join(s.Dir, "look"))
	git, metadata, index := filepath.Join(at, "git"), filepath.Join(private, jjFolder), filepath.Join(private, "index")
	visible, err := s.Git.BareOver(git, "ref: refs/heads/none", "", filepath.Join(private, gitFolder, "objects"))
	if !exists(index) {
		err = errors.Join(err, emptyIndex(index))
	}
	err = errors.Join(err,
		layOut(at, filepath.Join(metadata, "repo"), index, git),
		os.Symlink(filepath.Join(metadata, "working_copy/checkout"), filepath.Join(at, ".jj/working_copy/checkout")),
		write(filepath.Join(at, "config.toml"), settings))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	c := jail.Command{
		Args: append([]string{"sh", "-ec", lookScript, "sh", metadata, heads, shows}, operations...),
		Env:  environment(at), Dir: at, ReadOnly: append(visible, at, metadata), Writable: []string{index}, Stdout: &out,
		Limits: jail.Limits{Memory: lookMemory, Time: deadline.Answer, Output: lookOutput},
	}
	var all []head
	if err = c.Run(ctx); err == nil {
		all, err = parseHeads(out.String())
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, damaged(errors.Join(err, os.RemoveAll(index)))
	}
	return all, nil
}

// parseHeads reads what shows has said. A jj that was taken over may say anything.
func parseHeads(text string) ([]head, error) {
	var all []head
	for line := range strings.Lines(text) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(part) != 3 {
			return nil, errors.New("jj said something else than was asked")
		}
		h := head{
			id: part[0], parents: notRoot(strings.Fields(part[2])),
			named: strings.Contains(part[1], "named "), here: strings.Contains(part[1], "here "), copies: strings.Contains(part[1], "copies "),
		}
		for _, id := range append(h.parents, h.id) {
			if !isHex(id, 40, 64) {
				return nil, errors.New("jj said something else than a commit's id")
			}
		}
		all = append(all, h)
	}
	return all, nil
}

// current is the head that the sandbox's folder is at: of several operations, the newest one's.
// Where the workspace was renamed inside it is the only working copy.
func current(all []head) (head, bool) {
	if i := slices.IndexFunc(all, func(h head) bool { return h.here }); i >= 0 {
		return all[i], true
	}
	var copies []head
	for _, h := range all {
		if h.copies {
			copies = append(copies, h)
		}
	}
	if len(copies) == 1 {
		return copies[0], true
	}
	return head{}, false
}

// heads are what jj says of w's private repository and of the user's.
func (s *Shadow) heads(ctx context.Context, w forage.Workspace) (gitrepo.Heads, error) {
	var noted gitrepo.Heads
	of, err := state(w)
	if err != nil {
		return noted, err
	}
	noted.Of = of
	all, err := s.ask(ctx, w, strings.Fields(of)[1:])
	if err != nil {
		return noted, err
	}
	var copied string
	if at, ok := current(all); ok {
		noted.Work, copied = finished(at)
	}
	for _, h := range all {
		lastCopy := h.id == copied && w.Mode != forage.WorkspaceDirect && !exists(w.Path)
		if h.id != noted.Work && (h.id != copied || lastCopy) {
			noted.Others = append(noted.Others, h.id)
		}
	}
	noted.Others = notRoot(noted.Others)
	return noted, nil
}

// finished is the commit that stands for the work: the working copy's, or its parent while it has
// no description. jj makes such a commit of whatever is in the files, and replaces it with each
// command: it is only a copy of the files.
func finished(at head) (work, copied string) {
	switch {
	case len(notRoot([]string{at.id})) == 0:
		return "", ""
	case at.named || len(at.parents) > 1:
		return at.id, ""
	}
	return strings.Join(at.parents, ""), at.id
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

// root is the user's workspace of jj's that w works on.
func root(w forage.Workspace) string {
	if w.Mode == forage.WorkspaceDirect {
		return w.Path
	}
	return w.Source
}

// In runs f with a shadow of the user's repository.
func In(ctx context.Context, w forage.Workspace, scratch string, f func(*Shadow) error) error {
	r, err := Open(ctx, root(w))
	if err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "the jj repository of %s is gone: %w", root(w), err), "move it back")
	}
	return r.In(ctx, scratch, f)
}

// In runs f with a shadow.
func (r *Repository) In(ctx context.Context, scratch string, f func(*Shadow) error) error {
	s, err := r.Shadow(ctx, scratch)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// Look asks jj what there is to bring, to save and to keep, and notes it for gitrepo, which does
// so.
func Look(ctx context.Context, w forage.Workspace, scratch string) error {
	return In(ctx, w, scratch, func(s *Shadow) error {
		shown, err := s.shown(ctx, w)
		if err != nil {
			return err
		}
		heads, err := s.heads(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		heads.Host = shown
		return gitrepo.NoteHeads(w, heads, err)
	})
}

// Update is workspace.Provider.Update of what jj alone has: it looks only if jj has done something
// inside since.
func Update(ctx context.Context, w forage.Workspace, scratch string) (u workspace.Update, err error) {
	if gitrepo.RemovalBegun(w) {
		return u, nil
	}
	if of, err := state(w); err != nil || of != gitrepo.HeadsOf(w) {
		if err := Look(ctx, w, scratch); err != nil {
			return u, err
		}
	}
	return gitrepo.Import(ctx, w, scratch)
}

// Status is workspace.Provider.Status of what jj alone has.
func Status(ctx context.Context, w forage.Workspace, scratch string) (workspace.Status, error) {
	if gitrepo.RemovalBegun(w) {
		return workspace.Status{}, nil
	}
	if err := Look(ctx, w, scratch); err != nil && ctx.Err() == nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	return gitrepo.Unsaved(ctx, w, scratch)
}
