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
	"forage/internal/workspace"
)

// Repository is a git repository of the host's, as it was found: facts, read without running
// anything that it names. Shadow works with it.
type Repository struct {
	WorkTree string // its working folder; "" for a bare repository
	GitDir   string // of this working folder
	Common   string // what all working folders share: objects, refs, configuration. Equal to GitDir but in a linked worktree
	// Config is its own configuration as key (lower case, but for the subsection), values in order.
	// No include is followed.
	Config map[string][]string
	// ObjectFormat is "sha1" or "sha256".
	ObjectFormat string
	// Head is the branch that is checked out, without refs/heads/; "" when HEAD is detached:
	// Detached is its commit then.
	Head, Detached string
}

// ErrNoRepository says that there is no repository at a path.
var ErrNoRepository = errors.New("not a git repository")

// Bounds of a repository's own files, in bytes.
const (
	maxPointer = 64 << 10
	maxConfig  = 4 << 20
)

// Open looks at the repository whose working folder, or bare git directory, is path itself: it
// doesn't look in the folders above. ErrNoRepository, forage.ErrUnsupported for a repository that
// is too rare, or, when root calls, forage.ErrRefused for another user's.
func Open(ctx context.Context, path string) (*Repository, error) {
	r, err := locate(ctx, path)
	if err != nil {
		return nil, err
	}
	return r.opened(r.checkOwner())
}

// OpenToRead is Open for one who writes nothing there: another user's repository is not refused
// when root calls. What of it is shown inside is in the repository itself: objects that are a link
// are not.
func OpenToRead(ctx context.Context, path string) (*Repository, error) {
	r, err := locate(ctx, path)
	if err != nil {
		return nil, err
	}
	err = r.checkOwner()
	whole := r.Common == r.GitDir && (r.GitDir == path || r.GitDir == filepath.Join(path, ".git")) // else it leads to what may be root's
	if _, link := os.Readlink(filepath.Join(r.Common, "objects")); errors.Is(err, forage.ErrRefused) && whole && link != nil {
		err = nil
	}
	return r.opened(err)
}

func (r *Repository) opened(err error) (*Repository, error) {
	if err == nil {
		err = r.check()
	}
	if err == nil {
		r.Head, r.Detached, err = headOf(r.GitDir)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// checkOwner refuses another user's repository when root calls: see workspace.CheckOwner. Git
// itself does so too (safe.directory, git-config(1)), but not where it is told the git directory,
// as in a shadow.
func (r *Repository) checkOwner() error {
	paths := []string{r.GitDir, r.Common}
	if r.WorkTree != "" {
		paths = []string{r.WorkTree, filepath.Join(r.WorkTree, ".git"), r.GitDir, r.Common}
	}
	for _, name := range slices.Concat(shared[:], []string{"worktrees"}) {
		if path := filepath.Join(r.Common, name); !gone(path) {
			paths = append(paths, path)
		}
	}
	if err := workspace.CheckOwner(paths...); err != nil {
		return fmt.Errorf("opening the repository: %w", err)
	}
	return nil
}

// locate is Open without a look at whether we can work with the repository: Head and Detached are
// "".
func locate(ctx context.Context, path string) (*Repository, error) {
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
		if r.GitDir, err = ReadPointer(r.GitDir, "gitdir: "); err != nil {
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
	r.Common = r.GitDir
	common, err := ReadPointer(filepath.Join(r.GitDir, "commondir"), "")
	if err == nil {
		r.Common, err = filepath.EvalSymlinks(common)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !looksLikeGitDir(r.Common) {
		return nil, fmt.Errorf("%s: %w", path, ErrNoRepository)
	}
	if r.Config, err = ReadConfig(ctx, filepath.Join(r.Common, "config")); err != nil {
		return nil, err
	}
	if r.flag("extensions.worktreeconfig") {
		own, err := ReadConfig(ctx, filepath.Join(r.GitDir, "config.worktree"))
		if err != nil {
			return nil, err
		}
		for key, values := range own {
			r.Config[key] = append(r.Config[key], values...)
		}
	}
	r.ObjectFormat = cmp.Or(r.last("extensions.objectformat"), "sha1")
	return r, nil
}

func looksLikeGitDir(path string) bool {
	return !slices.ContainsFunc([]string{"HEAD", "objects", "refs"}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(path, name))
		return err != nil
	})
}

// readSmall reads a file of at most maxPointer bytes, which no link may stand for.
func readSmall(file string) ([]byte, error) {
	return workspace.ReadFile(file, unix.O_NOFOLLOW, maxPointer)
}

// ReadPointer reads a file that names a path after prefix; a relative one is seen from the file's
// folder.
func ReadPointer(file, prefix string) (string, error) {
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

// LineEnds has what works on the repository write files with the line ends that the user's git
// gives them there. Git is asked, since it alone knows what is included, where and in which order;
// `git config` executes nothing of what it reads.
func (r *Repository) LineEnds(ctx context.Context, u UserConfig) {
	out, err := hostexec.Run(ctx, hostexec.Command{
		Argv: []string{"git", "--git-dir=" + r.GitDir, "config", "--includes", "--null", "--get-regexp", `^core\.(autocrlf|eol)$`}, Env: u.Env,
	})
	if err != nil {
		return // nothing says so
	}
	for setting := range fields(out.Stdout) { // the last one counts
		if key, value, _ := strings.Cut(setting, "\n"); value != "" {
			r.Config[key] = []string{value}
		}
	}
}

// last is the value of a key that counts; "" if there is none.
func (r *Repository) last(key string) string {
	if values := r.Config[key]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// flag is a boolean: git-config(1), "Values".
func (r *Repository) flag(key string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(r.last(key)))
}

// known are the extensions of repositories that shadows carry or need not know of: git-config(1),
// "extensions".
var known = []string{"objectformat", "worktreeconfig", "preciousobjects", "noop", "relativeworktrees"}

// rare are repositories that we don't work with: what of the common git directory shows it, why,
// and what to do.
var rare = []struct{ name, why, hint string }{
	{"objects/info/alternates", "borrows objects from another repository", "make it whole: git repack -a -d && rm .git/objects/info/alternates"},
	{"info/grafts", "has grafts, which change what its commits say", "git replace --convert-graft-file, then git filter-repo, or remove the file"},
	{"refs/replace/*", "has replaced objects", "remove them: git replace -d $(git replace -l)"},
	{"sharedindex.*", "has a split index", "git update-index --no-split-index, then remove the sharedindex files"},
	{"reftable/*", "keeps its refs as a reftable", "git refs migrate --ref-format=files"},
}

// storeKey marks a repository of ours in its configuration: it may borrow objects.
const storeKey = "forage.store"

// check refuses a repository that we can't work with.
func (r *Repository) check() error {
	refuse := func(why, hint string) error {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s %s", r.Common, why), hint)
	}
	if strings.Contains(r.Common, "\n") {
		return refuse("has a line end in its path", "rename the folder")
	}
	objects := filepath.Join(r.Common, "objects")
	if info, err := os.Lstat(objects); err == nil && info.Mode()&fs.ModeSymlink != 0 { // those of any repository would be shown
		return refuse("keeps its objects behind a symbolic link", "move them to "+objects)
	}
	for _, one := range rare {
		found, err := filepath.Glob(filepath.Join(globbed(r.Common), one.name))
		if err != nil || len(found) > 0 && !(r.flag(storeKey) && one.name == "objects/info/alternates") {
			return errors.Join(err, refuse(one.why, one.hint))
		}
	}
	for key, values := range r.Config {
		name, ok := strings.CutPrefix(key, "extensions.")
		promisor := strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") && slices.Contains(values, "true")
		switch {
		case promisor || name == "partialclone":
			return refuse("is a partial clone: objects that it lacks would have to be fetched in the middle of things",
				"fetch them first: git fetch --refetch --no-filter, then git config --unset "+key)
		case name == "refstorage" && !slices.Contains(values, "files"):
			return refuse("keeps its refs as "+r.last(key), "git refs migrate --ref-format=files")
		case ok && name != "refstorage" && !slices.Contains(known, name):
			return refuse("uses git's extension "+name+", which this version does not know", "make a plain clone of it, and use that")
		}
	}
	return nil
}

// globbed is a path in which filepath.Glob finds no pattern.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// headOf is the branch that is checked out, or the commit.
func headOf(gitDir string) (branch, commit string, err error) {
	text, err := readSmall(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return "", "", err
	}
	id, ref, err := parseRef(text)
	if err != nil {
		return "", "", forage.Errorf(forage.ErrUnsupported, "the HEAD of %s is neither a branch nor a commit", gitDir)
	}
	return strings.TrimPrefix(ref, branchRef("")), id, nil
}

// StartOf is the commit that a branch or revision stands for; "" is what is checked out. The answer
// is "" where there is no commit yet.
func StartOf(ctx context.Context, r *Repository, revision, scratch string) (commit string, err error) {
	if revision == "" && r.Head == "" {
		return r.Detached, nil
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if revision == "" {
		return s.Branch(ctx, branchRef(r.Head))
	}
	if commit, err = s.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}"); err != nil {
		if ctx.Err() != nil { // it isn't known whether it is there
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

// above is the first folder at or above path of which is says so; "" if there is none.
func above(path string, is func(dir string) bool) string {
	for dir := path; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if is(dir) {
			return dir
		}
	}
	return ""
}

// JJAbove is the folder at or above path that has a .jj folder; "" if there is none.
func JJAbove(path string) string {
	return above(path, func(dir string) bool {
		info, err := os.Lstat(filepath.Join(dir, ".jj"))
		return err == nil && info.IsDir()
	})
}

// MetadataAround is the folder at or above path that is a git directory; "" if there is none.
func MetadataAround(path string) string { return above(path, looksLikeGitDir) }

// Around is the repository in whose working folder path is, and that folder; nil if there is none.
// It may be one that we can't work with: the user's git can.
func Around(path string) (folder string, r *Repository, err error) {
	folder = above(filepath.Dir(path), func(dir string) bool {
		r, err = locate(context.Background(), dir)
		return !errors.Is(err, ErrNoRepository) && !errors.Is(err, fs.ErrPermission) && (err != nil || r.WorkTree != "")
	})
	if folder == "" {
		return "", nil, nil
	}
	return folder, r, err
}

// Moved opens the repository that keeps the work of w, and says what to do when it isn't where it
// was.
func Moved(w forage.Workspace) (*Repository, error) {
	return storeOf(context.Background(), Open, w)
}

// opener is Open or OpenToRead.
type opener func(ctx context.Context, path string) (*Repository, error)

func storeOf(ctx context.Context, open opener, w forage.Workspace) (*Repository, error) {
	r, err := open(ctx, w.Repository.Store)
	if !errors.Is(err, ErrNoRepository) && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	return nil, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the repository %s of this workspace is gone: %w", cmp.Or(w.Source, w.Path), err),
		"it was moved or deleted: move it back to "+w.Repository.Store+"; until then the commits stay inside")
}

// Checkout is a working folder of a repository.
type Checkout struct {
	GitDir string // of this working folder
	Folder string // "" where the repository doesn't say: a bare one, or a submodule
	Branch string // without refs/heads/; "" is detached
}

// Checkouts are the working folders that the repository knows of, the main one first. A folder may
// be gone.
func (r *Repository) Checkouts(context.Context) []Checkout {
	first := Checkout{GitDir: r.Common}
	if !r.flag("core.bare") {
		first.Branch, _, _ = headOf(r.Common)
		if filepath.Base(r.Common) == ".git" {
			first.Folder = filepath.Dir(r.Common)
		}
	}
	all := []Checkout{first}
	entries, _ := os.ReadDir(filepath.Join(r.Common, "worktrees"))
	for _, entry := range entries {
		dir := r.admin(entry.Name())
		if pointer, err := ReadPointer(filepath.Join(dir, "gitdir"), ""); err == nil {
			branch, _, _ := headOf(dir)
			all = append(all, Checkout{GitDir: dir, Folder: filepath.Dir(pointer), Branch: branch})
		}
	}
	return all
}

// IndexOf is the host's index of a working folder of this repository; "" if it has none.
func (r *Repository) IndexOf(ctx context.Context, folder string) string {
	for _, checkout := range r.Checkouts(ctx) {
		if checkout.Folder != "" && checkout.Folder == filepath.Clean(folder) {
			return filepath.Join(checkout.GitDir, "index")
		}
	}
	return ""
}
