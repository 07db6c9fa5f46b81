package gitrepo

import (
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

// Unsaved says which work is nowhere but in w. It doesn't import: what Import has not brought in counts as
// Elsewhere. What can't be read is a Problem, which counts as work too.
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
	err = errors.Join(i.commits(ctx, &status), i.elsewhere(ctx, &status), i.uncommitted(ctx, &status))
	return status, err
}

// commits are those on the host's branch alone.
func (i *importing) commits(ctx context.Context, status *workspace.Status) error {
	ref := branchRef(i.w.Branch)
	tip, err := i.host.Branch(ctx, ref)
	if err != nil || tip == "" {
		return err
	}
	refs, err := i.host.Repository.Refs(ctx, i.scratch)
	if err != nil || refs.published(tip, ref) { // which spares a process when nothing was committed
		return err
	}
	_, taken, err := i.taken(ctx)
	if err != nil {
		return err
	}
	revisions := append([]string{"--ignore-missing", tip, "--not"}, published(ref)...)
	if taken != "" {
		revisions = append(revisions, taken)
	}
	status.Commits, status.CommitsCount, err = i.host.Commits(ctx, revisions)
	if err != nil {
		return fmt.Errorf("looking for commits on %s: %w", i.w.Branch, err)
	}
	return nil
}

// elsewhere are the refs inside with commits that no ref of the host's repository has, and what keeps us from knowing.
func (i *importing) elsewhere(ctx context.Context, status *workspace.Status) error {
	state, err := loadImported(i.w)
	if err != nil {
		return err
	}
	now, err := i.host.Branch(ctx, branchRef(i.w.Branch))
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
	status.Elsewhere = lost
	at, err := placeInside(i.from, i.w, state)
	switch {
	case err != nil:
		status.Problem = err.Error()
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
		var ref string
		status.Merge, ref = state.merge(at, lost)
		status.Unrelated = ref != "" && state.Unrelated != "" && (inside[ref] == state.Unrelated || status.Apart != "" && at.head == state.Unrelated)
	}
	return nil
}

// fetched are refs whose commits came from elsewhere, or that only keep what others hold.
var fetched = [...]string{"refs/remotes/", "refs/jj/", "refs/prefetch/"}

// leftPrefix begins the names of commits at which HEAD was detached, and which were left.
const leftPrefix = "detached/"

// insideRefs are the refs inside that may hold work, a detached HEAD and those of worktrees made inside among them.
func (i *importing) insideRefs() (map[string]string, []string, error) {
	refs, odd, err := i.from.refs()
	if err != nil {
		return nil, nil, err
	}
	isFetched := func(name string) bool {
		return slices.ContainsFunc(fetched[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	copied, err := copiedRefs(i.w)
	if err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(refs, func(name, id string) bool { return isFetched(name) || copied[name] == id })
	odd = slices.DeleteFunc(odd, isFetched)
	heads := []string{"HEAD"}
	worktrees, err := i.from.list("worktrees", maxInsideRefs)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range worktrees {
		heads = append(heads, "worktrees/"+entry.name+"/HEAD")
	}
	for _, name := range heads {
		text, err := i.from.read(name, maxInsideRef)
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
	state, err := loadImported(i.w)
	if err != nil {
		return nil, nil, err
	}
	named := slices.Collect(maps.Values(refs))
	for _, id := range slices.Concat(state.Left, i.from.left()) {
		if !slices.Contains(named, id) {
			refs[leftPrefix+id[:12]] = id
		}
	}
	return refs, odd, nil
}

// maxHeadLog bounds HEAD's log, in bytes.
const maxHeadLog = 16 << 20

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

// lost are those refs whose commits, or whose tag, the host's repository lacks or has on no ref, in order.
func (i *importing) lost(ctx context.Context, refs map[string]string) ([]string, error) {
	host, err := i.host.Repository.Refs(ctx, i.scratch)
	if err != nil {
		return nil, err
	}
	kept := make(map[string]bool, len(host.Values))
	for name, id := range host.Values {
		kept[id] = kept[id] || !strings.HasPrefix(name, "refs/forage/")
	}
	refs = maps.Clone(refs)
	maps.DeleteFunc(refs, func(_, id string) bool { return kept[id] })
	missing, err := i.host.lacks(ctx, slices.Sorted(maps.Values(refs)))
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if missing[refs[name]] {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// lacks are those of ids that the repository does not have, or that none of its refs leads to.
func (s *Shadow) lacks(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	kinds, err := s.Git(ctx, Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, Stdin: []byte(strings.Join(ids, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	lacks := make(map[string]bool)
	var commits strings.Builder
	for line := range strings.Lines(string(kinds)) {
		id, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "commit" {
			commits.WriteString(id + "\n")
		} else {
			lacks[id] = true // missing, or a tag that is no ref of the host's
		}
	}
	if commits.Len() == 0 {
		return lacks, nil
	}
	args := append([]string{"rev-list", "--stdin", "--not"}, published()...)
	out, err := s.Git(ctx, Call{Args: args, Stdin: []byte(commits.String())})
	for line := range strings.Lines(string(out)) {
		lacks[strings.TrimSpace(line)] = true
	}
	return lacks, err
}
