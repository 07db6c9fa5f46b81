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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"forage"
	"forage/internal/jail"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// The private repository was written inside. Nothing on the host reads it: jj is asked for its heads in a jail, which
// sees it read-only, with a configuration and a git directory of ours. git then fetches them by their ids.

// head is a commit that the private repository shows and no other visible one is based on, or a working copy.
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
	lookPatience  = 20 * time.Second
	lookMemory    = 4 << 30
	lookOutput    = 16 << 20
)

// operations are the last operations of a private repository, the newest first: one, but where jj has not merged those yet
// that went on side by side.
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
		if err != nil || !isOperation.MatchString(entry.Name()) {
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

var isOperation = regexp.MustCompile(`^[0-9a-f]{128}$`) // BLAKE2b-512

func damaged(err error) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUnsupported, "the sandbox's jj repository can't be read: %w", err),
		"inside, `jj status` says more, and `jj op log` with `jj op restore` leads back; `down --force` keeps all of it as it is")
}

// lookScript asks at each operation. jj waits for ever for a file that is a FIFO, and follows links.
const lookScript = `[ -z "$(find "$1" ! -type f ! -type d -print -quit)" ] || { echo 'it has more than files and folders' >&2; exit 1; }
revisions=$2 template=$3
shift 3
for operation; do
	jj --quiet --ignore-working-copy --at-operation "$operation" log --no-graph --revisions "$revisions" --template "$template"
done`

// ask has jj in a jail say the heads of w's private repository at those operations. Its index is one of ours, which is kept.
func (s *Shadow) ask(ctx context.Context, w forage.Workspace, operations []string) ([]head, error) {
	private, at := workspace.Resolved(w.Repository.Dir), workspace.Resolved(filepath.Join(s.Dir, "look"))
	objects, err := s.Repository.Git.ObjectDirs()
	if err != nil {
		return nil, err
	}
	alternates := []string{filepath.Join(private, gitFolder, "objects")}
	for _, o := range objects {
		alternates = append(alternates, o.Path)
	}
	git, metadata, index := filepath.Join(at, "git"), filepath.Join(private, jjFolder), filepath.Join(private, "index")
	if !exists(index) {
		err = emptyIndex(index)
	}
	err = errors.Join(err,
		os.RemoveAll(at),
		os.MkdirAll(filepath.Join(git, "objects/info"), 0o700), os.MkdirAll(filepath.Join(git, "refs"), 0o700),
		write(filepath.Join(git, "HEAD"), "ref: refs/heads/none\n"),
		write(filepath.Join(git, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
		write(filepath.Join(git, "objects/info/alternates"), strings.Join(alternates, "\n")+"\n"),
		layOut(at, filepath.Join(metadata, "repo"), index, git),
		os.Symlink(filepath.Join(metadata, "working_copy/checkout"), filepath.Join(at, ".jj/working_copy/checkout")),
		write(filepath.Join(at, "config.toml"), settings))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	c := jail.Command{
		Args: append([]string{"sh", "-ec", lookScript, "sh", metadata, heads, shows}, operations...),
		Env:  environment(at), Dir: at, ReadOnly: append([]string{at, metadata}, alternates...), Writable: []string{index}, Stdout: &out,
		Limits: jail.Limits{Memory: lookMemory, Time: lookPatience, Output: lookOutput},
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

var isCommit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

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
			if !isCommit.MatchString(id) {
				return nil, errors.New("jj said something else than a commit's id")
			}
		}
		all = append(all, h)
	}
	return all, nil
}

// current is the head that the sandbox's folder is at: of several operations, the newest one's. Where the workspace was renamed
// inside it is the only working copy.
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

// inside is what the private repository is at, with its objects in a staging of ours.
type inside struct {
	operations []string
	staging    *gitrepo.Shadow
	work       string   // the commit that stands for the work; "" is the root
	dirty      string   // the working copy's own commit where it isn't work: it is only a copy of the files. ""
	others     []string // heads with commits that neither the host nor work has
}

// look asks the private repository and takes its commits to a staging.
func (s *Shadow) look(ctx context.Context, w forage.Workspace) (_ *inside, err error) {
	ops, err := operations(filepath.Join(w.Repository.Dir, jjFolder))
	if err != nil {
		return nil, err
	}
	all, err := s.ask(ctx, w, ops)
	if err != nil {
		return nil, err
	}
	in := &inside{operations: ops}
	if at, ok := current(all); ok {
		in.finished(at)
	}
	var tips []string
	for _, h := range all {
		tips = append(tips, h.id)
	}
	slices.Sort(tips)
	tips = slices.Compact(notRoot(tips))
	if in.staging, err = s.Repository.Git.Take(ctx, filepath.Join(w.Repository.Dir, gitFolder), tips); err != nil {
		return nil, advise(err)
	}
	if err = in.staging.Sized(ctx, notRoot([]string{in.work})...); err == nil {
		in.others, err = in.freshHeads(ctx, tips)
	}
	if err != nil {
		return nil, errors.Join(advise(err), in.staging.Close())
	}
	return in, nil
}

// advise has what git refuses say what to do with jj.
func advise(err error) error {
	if forage.Hint(err) == "" {
		return err
	}
	return forage.WithHint(err, "inside, `jj log` shows the commits, and `jj abandon` or `jj squash` takes one away; until then they stay inside")
}

// finished finds what stands for the work: the working copy's commit, or its parent while it has no description.
// jj makes such a commit of whatever is in the files, and replaces it with each command.
func (in *inside) finished(at head) {
	switch {
	case len(notRoot([]string{at.id})) == 0:
	case at.named || len(at.parents) > 1:
		in.work = at.id
	default:
		in.work, in.dirty = strings.Join(at.parents, ""), at.id
	}
}

// freshHeads are the heads with commits that neither the host nor work has. There may be as many as whoever is inside
// likes, so that git is asked once for all.
func (in *inside) freshHeads(ctx context.Context, tips []string) ([]string, error) {
	rest := slices.DeleteFunc(tips, func(id string) bool { return id == in.dirty || id == in.work })
	if len(rest) == 0 {
		return nil, nil
	}
	list, err := in.staging.Git(ctx, gitrepo.Call{
		Args:  append([]string{"rev-list", "--stdin", "--not", "--all"}, notRoot([]string{in.work})...),
		Stdin: []byte(strings.Join(rest, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	fresh := make(map[string]bool)
	for id := range strings.Lines(string(list)) {
		fresh[strings.TrimSpace(id)] = true
	}
	return slices.DeleteFunc(rest, func(id string) bool { return !fresh[id] }), nil
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
