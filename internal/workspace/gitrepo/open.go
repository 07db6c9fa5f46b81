package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostexec"
)

// Repository is a git repository of the host's, as it was found: facts, read
// without running anything that it names. Shadow works with it.
type Repository struct {
	WorkTree string // its working folder; "" for a bare repository
	GitDir   string // of this working folder
	Common   string // what all working folders share: objects, refs, configuration. Equal to GitDir but in a linked worktree
	// Config is its own configuration file as key (lower case, but for subsection), values in order.
	// It is data: no include is followed.
	Config map[string][]string
	// ObjectFormat is "sha1" or "sha256", RefFormat "files" or "reftable".
	ObjectFormat, RefFormat string
	// Head is the branch that is checked out, without refs/heads/; "" when HEAD is detached: Detached is its commit then.
	Head, Detached string
	// foreign: root calls, and it is another user's. It is read, and never written to.
	foreign bool
}

// ErrNoRepository says that there is no repository at a path.
var ErrNoRepository = errors.New("not a git repository")

// maxPointer bounds small files of a repository, in bytes.
const maxPointer = 64 << 10

// Open looks at the repository whose working folder, or bare git directory, is path
// itself: it doesn't look in the folders above. ErrNoRepository,
// forage.ErrUnsupported for a repository that git itself would need more than we give it for, or, when root
// calls, forage.ErrRefused for another user's.
func Open(ctx context.Context, path string) (*Repository, error) {
	r, err := locate(path)
	if err != nil {
		return nil, err
	}
	if err := r.checkOwner(); err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	return r.check(ctx)
}

// OpenToRead is Open for who writes nothing there: another user's repository is not refused when root calls. What of it
// is shown inside is in the repository itself.
func OpenToRead(ctx context.Context, path string) (*Repository, error) {
	r, err := locate(path)
	if err != nil {
		return nil, err
	}
	err = r.checkOwner()
	r.foreign = errors.Is(err, forage.ErrRefused)
	whole := r.Common == r.GitDir && (r.GitDir == path || r.GitDir == filepath.Join(path, ".git")) // else it leads to what may be root's
	if err != nil && !(r.foreign && whole) {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	return r.check(ctx)
}

// check sees whether we can work with the repository, and where its HEAD is.
func (r *Repository) check(ctx context.Context) (*Repository, error) {
	if err := errors.Join(r.checkFormat(), r.checkRefFormat(ctx)); err != nil {
		return nil, err
	}
	return r, r.readHead(ctx)
}

// locate is Open without a look at whether we can work with the repository: Head and Detached are "".
func locate(path string) (*Repository, error) {
	r := &Repository{WorkTree: path, GitDir: filepath.Join(path, ".git")}
	info, err := os.Lstat(r.GitDir)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%s is a file: %w", path, ErrNoRepository)
	case errors.Is(err, fs.ErrNotExist):
		if !looksLikeGitDir(path) {
			return nil, fmt.Errorf("%s: %w", path, ErrNoRepository)
		}
		r.WorkTree, r.GitDir = "", path
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		if r.GitDir, err = readPointer(r.GitDir, "gitdir: "); err != nil {
			return nil, err
		}
	case !info.IsDir():
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "%s is neither a folder nor a file", r.GitDir),
			"replace a link by a file with the line \"gitdir: PATH\"")
	}
	if r.GitDir, err = filepath.EvalSymlinks(r.GitDir); err != nil {
		return nil, fmt.Errorf("opening the repository of %s: %w", path, err)
	}
	if err := r.findCommon(); err != nil {
		return nil, err
	}
	if !looksLikeGitDir(r.Common) {
		return nil, fmt.Errorf("%s: %w", path, ErrNoRepository)
	}
	if err := r.loadConfig(); err != nil {
		return nil, err
	}
	r.ObjectFormat = cmp.Or(r.last("extensions.objectformat"), "sha1")
	r.RefFormat = cmp.Or(r.last("extensions.refstorage"), "files")
	return r, nil
}

func (r *Repository) findCommon() error {
	common, err := readPointer(filepath.Join(r.GitDir, "commondir"), "")
	if errors.Is(err, fs.ErrNotExist) {
		r.Common = r.GitDir
		return nil
	}
	if err != nil {
		return err
	}
	r.Common, err = filepath.EvalSymlinks(common)
	return err
}

func looksLikeGitDir(path string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(path, name)); err != nil {
			return false
		}
	}
	return true
}

// readPointer reads a file that names a path after prefix; a relative one is seen from the file's folder.
func readPointer(file, prefix string) (string, error) {
	text, err := readSmall(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if !ok || path == "" {
		return "", forage.Errorf(forage.ErrUnsupported, "%s does not say where the repository is", file)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path, nil
}

// last is the value of a key that counts; "" if there is none.
func (r *Repository) last(key string) string {
	if values := r.Config[key]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// known are the extensions of repositories that shadows carry or need not know of:
// git-config(1), "extensions".
var known = map[string]bool{
	"objectformat": true, "refstorage": true, "worktreeconfig": true, "preciousobjects": true,
	"noop": true, "relativeworktrees": true,
}

func (r *Repository) checkFormat() error {
	for key, values := range r.Config {
		name, ok := strings.CutPrefix(key, "extensions.")
		switch {
		case strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") && slices.Contains(values, "true"):
			return r.partial(key)
		case !ok:
		case name == "partialclone":
			return r.partial("extensions.partialClone")
		case !known[name]:
			return forage.Errorf(forage.ErrUnsupported, "%s uses git's extension %q, which this version does not know", r.Common, name)
		}
	}
	return nil
}

func (r *Repository) readHead(ctx context.Context) error {
	text, err := readSmall(filepath.Join(r.GitDir, "HEAD"))
	if err != nil {
		return err
	}
	head := strings.TrimSpace(string(text))
	if r.RefFormat != "files" {
		if head, err = r.askHead(ctx); err != nil {
			return err
		}
	}
	ref, isRef := strings.CutPrefix(head, "ref:")
	ref = strings.TrimSpace(ref)
	switch {
	case isRef && validRef(ref):
		r.Head = strings.TrimPrefix(ref, "refs/heads/")
	case !isRef && isHex(head):
		r.Detached = head
	default:
		return forage.Errorf(forage.ErrUnsupported, "the HEAD of %s is neither a branch nor a commit", r.GitDir)
	}
	return nil
}

// askHead asks git for HEAD where it isn't a file, and answers as that file would.
func (r *Repository) askHead(ctx context.Context) (head string, err error) {
	own := *r
	own.Common = r.GitDir // each working folder has its HEAD in a table of its own
	s, err := own.Shadow(os.TempDir())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if ref, err := s.Line(ctx, "symbolic-ref", "--quiet", "HEAD"); err == nil {
		return "ref: " + ref, nil
	}
	return s.Line(ctx, "rev-parse", "--verify", "HEAD")
}

// StartOf is the commit that a branch or revision stands for; "" is what is checked out. The answer is "" where
// there is no commit yet.
func StartOf(ctx context.Context, r *Repository, revision, scratch string) (commit string, err error) {
	if revision == "" && r.Head == "" {
		return r.Detached, nil
	}
	if revision == "" {
		refs, err := r.Refs(ctx, scratch)
		return refs.Resolve("refs/heads/" + r.Head), err
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if commit, err = s.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}"); err != nil {
		if ctx.Err() != nil { // nobody knows whether it is there
			return "", context.Cause(ctx)
		}
		return "", forage.WithHint(
			forage.Errorf(forage.ErrUsage, "%s has no branch or commit %q", r.Common, revision),
			"see `git branch --all`")
	}
	return commit, nil
}

// HintAbove says where the repository is, when path is a folder inside one, or is jj's.
func HintAbove(path string) string {
	root, _, _ := Around(path)
	switch jj := JJAbove(path); {
	case jj != "" && len(jj) > len(root):
		return "jj has the repository " + jj + ": name it with --repo"
	case root != "":
		return "the repository begins at " + root + ": name that folder"
	}
	return "make one there: git init"
}

// JJAbove is the folder at or above path that has a .jj folder; "" if there is none.
func JJAbove(path string) string {
	for dir := path; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(dir, ".jj")); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// Around is the repository in whose working folder path is, and that folder; nil if there is none. It may be one that we can't
// work with: the user's git can.
func Around(path string) (string, *Repository, error) {
	for dir := filepath.Dir(path); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		r, err := locate(dir)
		switch {
		case errors.Is(err, ErrNoRepository), errors.Is(err, fs.ErrPermission), err == nil && r.WorkTree == "":
		default:
			return dir, r, err
		}
	}
	return "", nil, nil
}

// Moved opens the repository that keeps the work of w, and says what to do when it isn't where it was.
func Moved(w forage.Workspace) (*Repository, error) {
	r, err := Open(context.Background(), w.Repository.Store)
	if err == nil || errors.Is(err, forage.ErrRefused) {
		return r, err
	}
	from := w.Source
	if from == "" {
		from = w.Path
	}
	return nil, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the repository %s of this workspace is gone: %w", from, err),
		"it was moved or deleted: move it back to "+w.Repository.Store)
}

// MetadataAround is the folder at or above path that is a git directory; "" if there is none.
func MetadataAround(path string) string {
	for dir := path; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if looksLikeGitDir(dir) {
			return dir
		}
	}
	return ""
}

// partial is the error of a partial clone, which the setting says it is.
func (r *Repository) partial(setting string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUnsupported, "%s is a partial clone: objects that it lacks would have to be fetched in the middle of things", r.Common),
		"fetch them first: git fetch --refetch --no-filter, then git config --unset "+setting)
}

// checkRefFormat refuses refs that the git of this host is too old for.
func (r *Repository) checkRefFormat(ctx context.Context) error {
	if r.RefFormat == "files" {
		return nil
	}
	const since, minor = "2.45", 45 // git's release notes: reftable
	out, err := hostexec.Run(ctx, hostexec.Command{Argv: []string{"git", "version"}, Env: environment()})
	if err != nil {
		return gitError(err, out)
	}
	var has [2]int
	if _, err := fmt.Sscanf(string(out.Stdout), "git version %d.%d", &has[0], &has[1]); err == nil && (has[0] > 2 || has[0] == 2 && has[1] >= minor) {
		return nil
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrUnsupported, "the refs of %s are kept as %q, which takes git %s; this is %s", r.Common, r.RefFormat, since, strings.TrimSpace(string(out.Stdout))),
		"install a newer git in the system's folders, or: git refs migrate --ref-format=files")
}
