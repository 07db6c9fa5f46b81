package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/workspace"
)

// Unsaved says which work is nowhere but in w. It doesn't import: what Import has not brought in
// counts as Elsewhere. What can't be read is a Problem, which counts as work too.
func Unsaved(ctx context.Context, w forage.Workspace, scratch string) (status workspace.Status, err error) {
	if w.Repository == nil {
		return workspace.Status{}, nil
	}
	if _, err := os.Lstat(filepath.Join(w.Repository.Dir, "git")); errors.Is(err, fs.ErrNotExist) {
		return workspace.Status{}, nil // not made yet, or removed already
	}
	i, err := openImport(ctx, OpenToRead, w, scratch)
	if errors.Is(err, forage.ErrRefused) || errors.Is(err, forage.ErrUnsupported) {
		return workspace.Status{Problem: err.Error()}, nil
	}
	if err != nil {
		return workspace.Status{}, err
	}
	defer func() { err = errors.Join(err, i.close()) }()
	var files workspace.Status
	looked := make(chan error, 1)
	go func() { looked <- i.uncommitted(ctx, &files) }()
	err = errors.Join(i.commits(ctx, &status), i.elsewhere(ctx, &status), <-looked)
	status.Uncommitted, status.UncommittedCount = files.Uncommitted, files.UncommittedCount
	status.Problem = cmp.Or(status.Problem, files.Problem)
	return status, err
}

// commits are those on the host's branch alone.
func (i *importing) commits(ctx context.Context, status *workspace.Status) error {
	ref := TipRef(i.w)
	tip, err := i.host.Branch(ctx, ref)
	if err != nil || tip == "" {
		return err
	}
	_, taken, err := i.taken(ctx)
	if err != nil {
		return err
	}
	if taken == tip {
		return nil
	}
	revisions := append([]string{"--ignore-missing", tip, "--not"}, i.host.published(ref)...)
	if taken != "" {
		revisions = append(revisions, taken)
	}
	status.Commits, status.CommitsCount, err = i.host.Commits(ctx, revisions)
	if err != nil {
		return fmt.Errorf("looking for commits on %s: %w", i.w.Branch, err)
	}
	return nil
}

// elsewhere are the refs inside with commits that no ref of the host's repository has, and what
// keeps us from knowing.
func (i *importing) elsewhere(ctx context.Context, status *workspace.Status) error {
	state, at := i.state, i.at
	now, err := i.host.Branch(ctx, TipRef(i.w))
	if err != nil {
		return err
	}
	inside, odd, err := i.insideRefs()
	if err != nil {
		status.Problem = "the repository inside can't be read: " + err.Error()
		return nil
	}
	lost, err := i.lost(ctx, inside)
	if err != nil {
		return err
	}
	for _, ref := range lost {
		if id, is := strings.CutPrefix(ref, commitRefs); is {
			ref = "commit " + id[:12]
		} else if ref == workRef {
			ref = "commit " + inside[ref][:12]
		}
		status.Elsewhere = append(status.Elsewhere, ref)
	}
	switch {
	case i.unread != nil:
		status.Problem = i.unread.Error()
		return nil
	case len(odd) > 0:
		status.Problem = fmt.Sprintf("%s inside is not what git makes there, and was not read", odd[0])
	case moved(state, now) && slices.ContainsFunc(lost, state.wanted(at)):
		status.Problem = fmt.Sprintf("the branch %s was moved on the host from %.12s to %.12s; commits from inside are not brought to it any more (%.12s is checked out inside)",
			i.w.Branch, state.Branch, now, at.head)
	}
	if switched := i.switched(ctx, at); switched != nil && status.Problem == "" && slices.ContainsFunc(lost, state.wanted(at)) {
		status.Problem = switched.Error()
	}
	if state.apart(at) {
		status.Apart = at.called()
	}
	if status.Problem == "" {
		status.Merge = state.merge(at, lost)
	}
	return nil
}

// fetched are refs whose commits came from elsewhere, or that only keep what others hold.
var fetched = []string{"refs/remotes/", "refs/jj/", "refs/prefetch/"}

// leftPrefix begins the names of commits at which HEAD was detached, and which were left.
const leftPrefix = "detached/"

// insideRefs are the refs inside that may hold work, a detached HEAD and those of worktrees made
// inside among them.
func (i *importing) insideRefs() (map[string]string, []string, error) {
	all, odd, err := i.from.refs()
	if err != nil {
		return nil, nil, err
	}
	refs, isFetched := all.Values, func(name string) bool { return hasPrefix(name, fetched) }
	copied, err := copiedRefs(i.w)
	if err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(refs, func(name, id string) bool { return isFetched(name) || copied[name] == id })
	odd = slices.DeleteFunc(odd, isFetched)
	heads := []string{"HEAD"}
	worktrees, err := i.from.list("worktrees", maxRefs)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range worktrees {
		heads = append(heads, "worktrees/"+entry.Name()+"/HEAD")
	}
	for _, name := range heads {
		text, err := i.from.read(name, maxRef)
		if errors.Is(err, fs.ErrNotExist) && name != "HEAD" {
			continue
		}
		id, branch, parseErr := parseRef(text)
		switch {
		case err != nil || parseErr != nil:
			odd = append(odd, name)
		case branch == "":
			refs[name] = id
		}
	}
	more, err := addHeads(i.w, refs)
	if err != nil {
		return nil, nil, err
	}
	odd = append(odd, more...)
	named := slices.Collect(maps.Values(refs))
	for _, id := range slices.Concat(i.state.Left, i.from.left()) {
		if !slices.Contains(named, id) {
			refs[leftPrefix+id[:12]] = id
		}
	}
	return refs, odd, nil
}

// Bounds of what is read of HEAD's log: bytes, and commits.
const (
	maxHeadLog = 16 << 20
	maxLeft    = 100
)

// left are the newest commits at which HEAD was detached, and which it left, as git has noted.
func (m *metadata) left() (ids []string) {
	text, err := m.read("logs/HEAD", maxHeadLog)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		_, move, _ := strings.Cut(line, "\tcheckout: moving from ")
		if id, _, ok := strings.Cut(move, " to "); ok && isHex(id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
			ids = ids[max(0, len(ids)-maxLeft):]
		}
	}
	return ids
}

// lost are those refs whose commits, or whose tag, the host's repository lacks or has on no ref, in
// order.
func (i *importing) lost(ctx context.Context, refs map[string]string) ([]string, error) {
	host, err := i.host.Repository.Refs(ctx, i.scratch)
	if err != nil {
		return nil, err
	}
	kept := make(map[string]bool, len(host.Values))
	for name, id := range host.Values {
		kept[id] = kept[id] || !strings.HasPrefix(name, "refs/forage/") && !strings.HasPrefix(name, "refs/jj/")
	}
	refs = maps.Clone(refs)
	maps.DeleteFunc(refs, func(_, id string) bool { return kept[id] })
	if len(refs) == 0 {
		return nil, nil
	}
	commits, err := i.host.commits(ctx, slices.Sorted(maps.Values(refs)))
	if err != nil {
		return nil, err
	}
	safe := make(map[string]bool) // not what is missing, nor a tag that is no ref of the host's
	for _, id := range commits {
		safe[id] = true
	}
	if len(commits) > 0 {
		args := append([]string{"rev-list", "--stdin", "--not"}, i.host.published()...)
		if tip := host.Values[TipRef(i.w)]; tip != "" { // jj's is on no branch
			args = append(args, tip)
		}
		out, err := i.host.Git(ctx, Call{Args: args, Stdin: []byte(strings.Join(commits, "\n") + "\n")})
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			delete(safe, strings.TrimSpace(line))
		}
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if !safe[refs[name]] {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// uncommitted are files that are not as the branch inside has them. In the user's own folder these
// are only staged.
func (i *importing) uncommitted(ctx context.Context, status *workspace.Status) error {
	if gone(i.w.Path) {
		return nil // the user removed it: what was in it is gone
	}
	var names []string
	if i.w.Mode != forage.WorkspaceDirect {
		base, err := i.base(ctx)
		if err != nil {
			return err
		}
		if names, err = i.changedFiles(ctx, base); err == nil {
			names, err = i.withoutTaken(ctx, names, base)
		}
		if err != nil {
			return fmt.Errorf("looking for uncommitted work: %w", err)
		}
	}
	staged, err := i.onlyInIndex(ctx)
	if err != nil && status.Problem == "" {
		status.Problem = err.Error()
	}
	names = slices.Compact(slices.Sorted(slices.Values(append(names, staged...))))
	status.UncommittedCount = len(names)
	status.Uncommitted = names[:min(len(names), workspace.MaxListed)]
	return nil
}

// base is the commit that files inside are compared with: what is checked out there, or stands for
// the work; where the host has neither, the branch on the host.
func (i *importing) base(ctx context.Context) (string, error) {
	outside, err := i.host.Branch(ctx, TipRef(i.w))
	if err != nil {
		return "", err
	}
	outside = cmp.Or(outside, i.w.Base)
	tip, _ := i.state.tip(i.at)
	for _, id := range []string{i.at.files, tip} {
		if id == "" {
			continue
		}
		if id == outside {
			return id, nil
		}
		if _, err := i.host.Git(ctx, Call{Args: []string{"cat-file", "-e", id + "^{commit}"}}); err == nil {
			return id, nil
		}
	}
	return outside, nil
}

// changedFiles lists files that are not as base has them, with an index of ours that is kept for
// the next time.
func (i *importing) changedFiles(ctx context.Context, base string) ([]string, error) {
	l, err := i.host.look(ctx, Folder{
		Path: i.w.Path, Base: base, Index: i.w.Repository.Dir + indexSuffix, Seed: i.host.Repository.IndexOf(ctx, i.w.Path), Rules: i.host.Rules(ctx, i.w), Submodules: true,
	})
	if err != nil {
		return nil, TooLong(err)
	}
	return l.names(), l.close()
}

// takenSuffix names the note of what NoteTaken is told.
const takenSuffix = ".taken"

// NoteTaken remembers that a commit in the user's repository has all of the work: the files of w,
// and what the commits up to tip did. As long as a branch of the user's leads to it, those are
// nothing that would be lost.
func NoteTaken(w forage.Workspace, commit, tip string) error {
	if !filepath.IsAbs(w.Repository.Dir) { // the note would be in whatever folder the caller is in
		return fmt.Errorf("noting what was taken: %q is no folder of ours", w.Repository.Dir)
	}
	return os.WriteFile(w.Repository.Dir+takenSuffix, []byte(commit+" "+tip+"\n"), 0o600)
}

// Taken is what was noted last; "" is nothing.
func Taken(w forage.Workspace) (commit, tip string, err error) {
	text, err := os.ReadFile(w.Repository.Dir + takenSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	commit, tip, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	return commit, tip, err
}

// taken is Taken, if a branch of the user's still leads there.
func (i *importing) taken(ctx context.Context) (commit, tip string, err error) {
	commit, tip, err = Taken(i.w)
	if err != nil || commit == "" {
		return "", "", err
	}
	if has, err := i.host.contains(ctx, commit, TipRef(i.w)); err != nil || !has {
		return "", "", nil // it is gone, or on no branch any more
	}
	return commit, tip, nil
}

// withoutTaken are the changed files that the user has not taken over as they are: neither what was
// noted nor the branch that is checked out on the host has them so. They differ from base. Folders
// stay: see looking.names.
func (i *importing) withoutTaken(ctx context.Context, changed []string, base string) ([]string, error) {
	if len(changed) == 0 {
		return changed, nil
	}
	taken, _, err := i.taken(ctx)
	if err != nil {
		return nil, err
	}
	head := i.host.Repository.Head
	if head == i.w.Branch {
		head = ""
	}
	if head != "" {
		if head, err = i.host.Branch(ctx, branchRef(head)); err != nil {
			return nil, err
		}
	}
	for _, commit := range slices.Compact([]string{taken, head}) {
		if commit == "" || commit == base {
			continue
		}
		others, err := i.changedFiles(ctx, commit)
		if err != nil {
			return nil, err
		}
		for _, name := range changed { // what is in a repository of its own is in no commit
			if strings.HasSuffix(name, "/") {
				others = append(others, name)
			}
		}
		changed = InBoth(changed, others)
	}
	return changed, nil
}
