package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// Refs are the refs of a repository: full names.
type Refs struct {
	Values   map[string]string // hex
	Symbolic map[string]string // name to name, as of refs/remotes/origin/HEAD; never HEAD itself
}

// Bounds of what is read of refs.
const (
	maxRefs     = 200_000
	maxRefName  = 1024     // bytes
	maxRef      = 4 << 10  // bytes of a file with one ref
	maxPacked   = 16 << 20 // bytes of packed-refs
	maxRefDepth = 32       // folders below refs/
	maxSymbolic = 5        // as git has it
)

// errIrregular says that something is not what git would have put there.
var errIrregular = errors.New("not what git makes there")

// metadata is a git directory whose refs are read as data. The agent may have written it, and may
// be writing. Nothing is reached through a link or from elsewhere, and nothing is waited for.
type metadata struct {
	root *os.Root
	path string
}

func openMetadata(dir string) (*metadata, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &metadata{root, dir}, nil
}

// openInside opens the git directory of a workspace, to which the agent may have closed the way. For
// jj alone it is the one that Heads are noted as.
func openInside(w forage.Workspace) (*metadata, error) {
	if w.Repository.Kind == forage.RepositoryJJ {
		return openMetadata(noted(w, ""))
	}
	dir := filepath.Join(w.Repository.Dir, "git")
	_ = workspace.Permit(dir, 0o500) // else opening says why not
	return openMetadata(dir)
}

func (m *metadata) close() { m.root.Close() }

// read reads a regular file of at most limit bytes. fs.ErrNotExist or errIrregular.
func (m *metadata) read(name string, limit int64) ([]byte, error) {
	info, err := m.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file: %w", name, errIrregular)
	}
	var text []byte
	if err == nil {
		text, _, err = hostile.ReadIn(m.root, name, limit)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: %w", name, err, errIrregular)
	}
	return text, err
}

// list reads a folder, at most limit entries of it. An absent one is empty.
func (m *metadata) list(name string, limit int) ([]fs.DirEntry, error) {
	if info, err := m.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil || !info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s: not a folder: %w", name, errIrregular), err)
	}
	dir, err := m.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(limit + 1)
	if len(entries) > limit {
		return nil, fmt.Errorf("%s: more than %d entries: %w", name, limit, errIrregular)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// branch is the commit that a ref is at, "" if it has none.
func (m *metadata) branch(name string) (string, error) {
	if err := m.hasFiles(); err != nil {
		return "", err
	}
	for range maxSymbolic {
		info, err := m.root.Lstat(name) // before packed-refs: what is packed meanwhile is found in one of the two
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || err == nil && info.IsDir() {
			return m.packedBranch(name)
		}
		text, err := m.read(name, maxRef)
		if errors.Is(err, fs.ErrNotExist) {
			continue // packed meanwhile
		}
		if err != nil {
			return "", err
		}
		id, target, err := parseRef(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if id != "" {
			return id, nil
		}
		name = target
	}
	return "", fmt.Errorf("%s: refs that name each other: %w", name, errIrregular)
}

// hasFiles says whether refs are files: in a reftable there would seem to be none.
func (m *metadata) hasFiles() error {
	if _, err := m.root.Lstat("reftable"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return forage.Errorf(forage.ErrUnsupported, "the repository %s has reftable, which is not read here", m.path)
}

func (m *metadata) packedBranch(name string) (string, error) {
	text, err := m.read("packed-refs", maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	before, _, found := bytes.Cut(text, []byte(" "+name+"\n")) // no name has a space in it
	if err != nil || !found {
		return "", err
	}
	id := string(before[bytes.LastIndexByte(before, '\n')+1:])
	if !isHex(id) {
		return "", fmt.Errorf("packed-refs: a line that names no ref: %w", errIrregular)
	}
	return id, nil
}

// head is what HEAD is at, and the full name of its branch; "" is a detached one.
func (m *metadata) head() (id, branch string, err error) {
	text, err := m.read("HEAD", maxRef)
	if err != nil {
		return "", "", err
	}
	id, branch, err = parseRef(text)
	if err != nil {
		return "", "", fmt.Errorf("HEAD: %w", err)
	}
	if branch != "" {
		id, err = m.branch(branch)
	}
	return id, branch, err
}

// refs are all refs, and what among them can't be read.
func (m *metadata) refs() (found Refs, odd []string, err error) {
	if err := m.hasFiles(); err != nil {
		return found, nil, err
	}
	found = Refs{Values: make(map[string]string), Symbolic: make(map[string]string)}
	loose, left := make(map[string]bool), maxRefs
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		entries, err := m.list(dir, left)
		left -= len(entries)
		for _, entry := range entries {
			name := path.Join(dir, entry.Name())
			switch {
			case strings.HasSuffix(name, ".lock"):
			case entry.IsDir() && depth < maxRefDepth:
				if err := walk(name, depth+1); err != nil {
					odd = append(odd, name)
				}
			case !validRef(name):
				odd = append(odd, name)
			default:
				text, err := m.read(name, maxRef)
				if errors.Is(err, fs.ErrNotExist) {
					continue // packed or deleted meanwhile
				}
				loose[name] = true
				id, target, parseErr := parseRef(text)
				switch {
				case err != nil || parseErr != nil:
					odd = append(odd, name)
				case id != "":
					found.Values[name] = id
				default:
					found.Symbolic[name] = target
				}
			}
		}
		return err
	}
	if err := walk("refs", 0); err != nil {
		return found, nil, err
	}
	text, err := m.read("packed-refs", maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	packed, parseErr := parsePacked(text)
	for name, id := range packed {
		if !loose[name] {
			found.Values[name] = id
		}
	}
	slices.Sort(odd)
	return found, odd, errors.Join(err, parseErr)
}

// parseRef reads gitrepository-layout(5)'s file of one ref: an id in hex, or the name of another
// ref.
func parseRef(text []byte) (id, target string, err error) {
	if rest, ok := bytes.CutPrefix(text, []byte("ref:")); ok {
		if target = string(bytes.TrimSpace(rest)); !validRef(target) {
			return "", "", fmt.Errorf("it names no ref: %w", errIrregular)
		}
		return "", target, nil
	}
	if id = string(bytes.TrimRight(text, " \t\r\n")); !isHex(id) {
		return "", "", fmt.Errorf("it holds no object's name: %w", errIrregular)
	}
	return id, "", nil
}

// parsePacked reads packed-refs. A line that git would not have written spoils the whole.
func parsePacked(text []byte) (map[string]string, error) {
	refs := make(map[string]string)
	for line := range bytes.Lines(text) {
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		switch {
		case !ended:
			return nil, fmt.Errorf("packed-refs: cut off: %w", errIrregular)
		case len(line) > 0 && line[0] == '#', len(line) > 0 && line[0] == '^' && isHex(string(line[1:])):
			continue
		}
		id, name, ok := strings.Cut(string(line), " ")
		if !ok || !isHex(id) || !validRef(name) {
			return nil, fmt.Errorf("packed-refs: a line that names no ref: %w", errIrregular)
		}
		if refs[name] = id; len(refs) > maxRefs {
			return nil, fmt.Errorf("packed-refs: more than %d refs: %w", maxRefs, errIrregular)
		}
	}
	return refs, nil
}

// validRef says whether name is a full ref name by git-check-ref-format(1).
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || len(name) > maxRefName || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

func isHex(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

// emptyID is the id that stands for nothing.
func emptyID(format string) string {
	if format == "sha256" {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// Refs reads all refs of the repository, but those that belong to one working folder. What git
// would not have written is left out.
func (r *Repository) Refs(context.Context, string) (Refs, error) { return refsIn(r.Common) }

func refsIn(dir string) (Refs, error) {
	m, err := openMetadata(dir)
	if err != nil {
		return Refs{}, err
	}
	defer m.close()
	refs, _, err := m.refs()
	if err != nil {
		return refs, forage.Errorf(forage.ErrUnsupported, "reading the refs of %s: %w", dir, err)
	}
	return refs, nil
}

// Resolve is the commit that a full ref name stands for, "" if there is none.
func (refs Refs) Resolve(name string) string {
	for range maxSymbolic {
		if id := refs.Values[name]; id != "" {
			return id
		}
		if name = refs.Symbolic[name]; name == "" {
			break
		}
	}
	return ""
}

// FreeBranch refuses a branch name that is taken, or that can't be beside those that are.
func (refs Refs) FreeBranch(branch string) error {
	name := branchRef(branch)
	for other := range refs.Values {
		if other == name || strings.HasPrefix(other, name+"/") {
			other = strings.TrimPrefix(other, branchRef(""))
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the branch %s is there already", other),
				"choose another name for the sandbox, or merge what is on it and delete it: git branch -d "+other)
		}
	}
	return nil
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// hidden are refs that are of no use inside: of one working folder, of Forage's, of jj's, of what
// waits in the user's stash.
var hidden = []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/", "refs/stash", "refs/forage/", "refs/jj/", "refs/prefetch/"}

func isHidden(name string) bool { return hasPrefix(name, hidden) }

// errMoved says that a ref is not where it was said to be.
var errMoved = errors.New("the branch is not where it was")

// branchRef is the full name of a branch.
func branchRef(branch string) string { return "refs/heads/" + branch }

// TipRef is the ref at which the work of w is in the host's repository: its branch, or for a
// repository that jj alone uses a ref that jj doesn't look at. One that jj imports would move the
// user's own commits and bookmarks.
func TipRef(w forage.Workspace) string {
	if w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ {
		return "refs/forage/tip/" + w.Branch
	}
	return branchRef(w.Branch)
}

// Branch is the commit that a full ref name of the host's repository stands for; "" if there is
// none.
func (s *Shadow) Branch(_ context.Context, ref string) (string, error) {
	if !validRef(ref) {
		return "", forage.Errorf(forage.ErrUsage, "%q is no name of a ref", ref)
	}
	m, err := openMetadata(s.Repository.Common)
	if err != nil {
		return "", err
	}
	defer m.close()
	return m.branch(ref)
}

// MoveBranch moves a ref of the host's repository from where it was ("": it wasn't there) to where
// it is to be. errMoved: it was elsewhere, and stays there. A ref that is locked is waited for:
// core.filesRefLockTimeout.
func (s *Shadow) MoveBranch(ctx context.Context, ref, from, to, why string) error {
	if !validRef(ref) || !isHex(to) {
		return forage.Errorf(forage.ErrUsage, "%q is no name of a ref", ref)
	}
	old := from
	if old == "" {
		old = emptyID(s.Repository.ObjectFormat)
	}
	_, err := s.Git(ctx, Call{Args: []string{"update-ref", "--no-deref", "--create-reflog", "-m", why, ref, to, old}})
	if err == nil || ctx.Err() != nil {
		return err
	}
	if now, look := s.Branch(ctx, ref); look == nil && now != from {
		if now == to {
			return nil
		}
		return errors.Join(errMoved, err)
	}
	return lockedHint(err, ref)
}

// lockedHint says what to do about a lock that is not given up.
func lockedHint(err error, what string) error {
	if !strings.Contains(err.Error(), ".lock") {
		return err
	}
	return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is locked by another git: %w", what, err),
		"try again when it has ended; if none is running, remove the .lock file that is named above")
}

// DropRefs deletes refs that are still at these commits; "" is wherever one is. Others stay.
func (s *Shadow) DropRefs(ctx context.Context, refs map[string]string) error {
	var commands strings.Builder
	for ref, at := range refs {
		now, err := s.Branch(ctx, ref)
		if err != nil {
			return err
		}
		if now != "" && (at == "" || at == now) {
			commands.WriteString("option no-deref\x00delete " + ref + "\x00" + now + "\x00")
		}
	}
	if commands.Len() == 0 {
		return nil
	}
	_, err := s.Git(ctx, Call{Args: []string{"update-ref", "-z", "--stdin"}, Stdin: []byte(commands.String())})
	return err
}

// DropTip deletes w's branch in the host's repository, if both are there and it is still at a commit.
func DropTip(ctx context.Context, w forage.Workspace, at, scratch string) error {
	return withStore(ctx, w.Repository.Store, scratch, func(s *Shadow) error {
		return s.DropRefs(ctx, map[string]string{TipRef(w): at})
	})
}

// withStore runs f with the repository at a path, if it is there.
func withStore(ctx context.Context, path, scratch string, f func(*Shadow) error) error {
	r, err := Open(ctx, path)
	if errors.Is(err, ErrNoRepository) || errors.Is(err, fs.ErrNotExist) || gone(path) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// contains says whether any branch, tag or remote-tracking branch of the host's repository has the
// commit, but those in except.
func (s *Shadow) contains(ctx context.Context, commit string, except ...string) (bool, error) {
	args := append([]string{"rev-list", "--max-count=1", "--not"}, s.published(except...)...)
	out, err := s.Git(ctx, Call{Args: append(args, "--not", "--end-of-options", commit)})
	return err == nil && len(bytes.TrimSpace(out)) == 0, err
}

// published are the arguments of rev-list(1) for what is safe on the host: branches, tags, remotes
// and what jj shows.
func (s *Shadow) published(except ...string) []string {
	var args []string
	for _, ref := range except {
		args = append(args, "--exclude="+ref)
	}
	return append(append(args, "--exclude=refs/forage/*", "--exclude=refs/stash", "--exclude=refs/jj/*", "--exclude=HEAD", "--all"), s.shown...)
}

// Commits are those that revisions, as rev-list(1) takes them, are about: the newest, at most
// workspace.MaxListed, and how many there are. A whole history is only counted.
func (s *Shadow) Commits(ctx context.Context, revisions []string) (list []workspace.Commit, count int, err error) {
	args := []string{"rev-list", "--no-commit-header", "--format=%H%x09%<(300,trunc)%s", "--max-count=" + strconv.Itoa(workspace.MaxListed+1)}
	out, err := s.Git(ctx, Call{Args: append(args, revisions...)})
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.Lines(string(out)) {
		id, subject, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		list = append(list, workspace.Commit{ID: id, Subject: strings.TrimRight(subject, " ")})
	}
	if len(list) <= workspace.MaxListed {
		return list, len(list), nil
	}
	text, err := s.Line(ctx, append([]string{"rev-list", "--count"}, revisions...)...)
	if err == nil {
		count, err = strconv.Atoi(text)
	}
	return list[:workspace.MaxListed], count, err
}

// Adopt makes the private metadata of one sandbox, of which dir is a copy, that of another: what
// was the branch from is called to then, or where from is "", what HEAD was at. What else is in dir
// was written inside, and stays as it is: with own, from was the first one's own branch, which
// goes. Nothing runs in it yet.
func Adopt(dir, from, to string, own bool) error {
	m, err := openMetadata(dir)
	if err != nil {
		return err
	}
	defer m.close()
	id, on, err := m.head()
	if err == nil && from != "" {
		id, err = m.branch(branchRef(from))
	}
	if err != nil {
		return fmt.Errorf("reading the branch %s inside: %w", from, err)
	}
	if own && from != to {
		err = errors.Join(m.root.RemoveAll(branchRef(from)), m.root.RemoveAll("logs/"+branchRef(from)), m.dropPacked(branchRef(from)))
	}
	if id != "" && err == nil {
		err = m.rewrite(branchRef(to), id+"\n")
	}
	if err == nil && (on == branchRef(from) || from == "") {
		err = m.rewrite("HEAD", "ref: "+branchRef(to)+"\n")
	}
	return err
}

// dropPacked takes a ref out of packed-refs.
func (m *metadata) dropPacked(name string) error {
	text, err := m.read("packed-refs", maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	refs, parseErr := parsePacked(text)
	if err = errors.Join(err, parseErr); err != nil || refs[name] == "" {
		return err
	}
	delete(refs, name)
	return m.rewrite("packed-refs", packed(refs))
}

// rewrite puts text in the place of a file.
func (m *metadata) rewrite(name, text string) error {
	err := m.root.MkdirAll(path.Dir(name), 0o700)
	if err == nil {
		err = m.root.RemoveAll(name)
	}
	if err != nil {
		return err
	}
	return m.root.WriteFile(name, []byte(text), 0o600)
}

// Expire lets kept work go for good: its ref below RecoveryRefs, its folder, or the repository of a
// removed clone. A branch is not ours any more, and what is gone already is as good as expired.
func Expire(ctx context.Context, kept workspace.Recovery, scratch string) error {
	if kept.Folder != "" {
		return hostile.RemoveAll(kept.Folder)
	}
	if workspace.IsKept(kept.Store) { // of a clone: nothing else is in it
		return hostile.RemoveAll(kept.Store)
	}
	if !strings.HasPrefix(kept.Ref, RecoveryRefs) {
		return nil
	}
	return withStore(ctx, kept.Store, scratch, func(s *Shadow) error { return s.DropRefs(ctx, map[string]string{kept.Ref: ""}) })
}

// ExpireBelow lets every ref go below kept.Ref but those of which spared says so.
func ExpireBelow(ctx context.Context, kept workspace.Recovery, spared func(ref string) bool, scratch string) error {
	return withStore(ctx, kept.Store, scratch, func(s *Shadow) error {
		refs, err := s.Repository.Refs(ctx, scratch)
		if err != nil {
			return err
		}
		maps.DeleteFunc(refs.Values, func(ref, _ string) bool {
			return !strings.HasPrefix(ref, kept.Ref) || !strings.HasPrefix(ref, RecoveryRefs) || spared(ref)
		})
		return s.DropRefs(ctx, refs.Values)
	})
}
