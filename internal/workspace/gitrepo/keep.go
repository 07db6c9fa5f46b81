package gitrepo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// RecoveryRefs is where recovery refs are: RecoveryRefs + SANDBOX/TIME[-PART]/REF, TIME being RFC
// 3339 in UTC without colons. REF is work, the branch with what was not committed on top, or what a
// ref inside was called, without refs/, as far as that is plain: see keptName.
const RecoveryRefs = "refs/forage/recovery/"

const (
	// recoveryTime is in the names of those refs: sandboxes of one name can follow each other
	// within a second.
	recoveryTime = "2006-01-02T150405.000Z"
	// workName is what the recovery ref of the work itself is called.
	workName = "work"
	// keepPatience is how long is taken before a removal to look for work, and again to bring its
	// commits, all together: objects can be made inside that take git days.
	keepPatience = time.Hour
	// maxKept is how many refs, or heads of jj, are kept one by one. Of more the whole metadata is
	// kept as it is.
	maxKept = 500
	// Bounds of what is kept of the stash.
	maxStashLog = 1 << 20
	maxStashed  = 100
)

// Keep makes refs in the host's repository, below RecoveryRefs, that hold all of w's work that is
// nowhere else, uncommitted files included, and returns them. What can't be had as objects of git,
// such as repositories inside the folder and commits that don't pass git's checks, is moved to a
// folder; so is the private metadata of a worktree or clone in which anything was committed. The
// sandbox isn't running any more, and w is about to be removed.
func Keep(ctx context.Context, w forage.Workspace, sandbox, scratch string) (kept []workspace.Recovery, err error) {
	if w.Repository == nil {
		return nil, nil
	}
	unlock, err := lockImport(ctx, w)
	if err != nil {
		return nil, err
	}
	defer unlock()
	i, err := openImport(ctx, Open, w, scratch)
	if err != nil {
		return nil, err
	}
	k := newKeeping(i, sandbox, time.Now().UTC().Truncate(time.Millisecond))
	defer func() { err = errors.Join(err, i.close()) }()
	if err := k.quarantine(); err != nil {
		return nil, err
	}
	err = k.run(ctx)
	return k.kept, err
}

// keeping is one Keep.
type keeping struct {
	*importing
	sandbox string
	made    time.Time
	kept    []workspace.Recovery
	spoilt  bool // something in the private metadata can't be had as objects of git
}

func newKeeping(i *importing, sandbox string, made time.Time) *keeping {
	return &keeping{importing: i, sandbox: sandbox, made: made}
}

func (k *keeping) run(ctx context.Context) error {
	tip, ref, err := "", "", k.unread
	if err == nil {
		if tip, ref = k.state.tip(k.at); tip != "" {
			err = k.take(ctx, tip)
		}
	}
	if ctx.Err() != nil {
		return err
	}
	if k.spoilt = err != nil; k.spoilt || tip == "" {
		if tip, err = k.host.Branch(ctx, TipRef(k.w)); err != nil {
			return err
		}
		if tip == "" && k.w.Mode != forage.WorkspaceDirect {
			tip = k.w.Base
		}
	}
	if err := k.others(ctx, cmp.Or(ref, workRef)); err != nil {
		return err
	}
	if err := k.work(ctx, tip); err != nil {
		return err
	}
	if !gone(k.w.Path) {
		staged, err := k.onlyInIndex(ctx)
		k.spoilt = k.spoilt || err != nil || len(staged) > 0
	}
	if !k.spoilt && !k.madeInside() {
		return nil
	}
	for _, name := range []string{"git", "jj"} {
		if path := filepath.Join(k.w.Repository.Dir, name); !gone(path) {
			if err := k.moveAside(name, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// take brings commits to the host's repository, if they pass git's checks. Of those that don't
// nothing comes.
func (k *keeping) take(ctx context.Context, ids ...string) error {
	ctx, cancel := context.WithDeadline(ctx, k.made.Add(keepPatience))
	defer cancel()
	err := k.fetch(ctx, ids...)
	if err == nil {
		err = k.stage.admit()
	}
	if err != nil {
		err = errors.Join(err, k.quarantine())
	}
	return err
}

// others keeps the refs inside but one, and all that was stashed.
func (k *keeping) others(ctx context.Context, but string) error {
	refs, odd, err := k.insideRefs()
	if err != nil {
		k.spoilt = true
		return nil
	}
	k.spoilt = k.spoilt || len(odd) > 0
	delete(refs, but)
	for n, id := range k.stashed() {
		name := fmt.Sprintf("refs/stash-%d", n+1)
		for refs[name] != "" { // a ref of the agent's
			name += "-"
		}
		refs[name] = id
	}
	lost, err := k.lost(ctx, refs)
	if err != nil {
		return err
	}
	if len(lost) > maxKept {
		k.spoilt = true
		return nil
	}
	var ids []string
	for _, name := range lost {
		ids = append(ids, refs[name])
	}
	whole := len(ids) == 0 || k.take(ctx, ids...) == nil
	for _, name := range lost {
		if !whole && k.take(ctx, refs[name]) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			k.spoilt = true
			continue
		}
		if err := k.keep(ctx, keptName(name, refs[name]), refs[name]); ctx.Err() != nil {
			return err
		} else if err != nil { // such as beside another ref that can't be there with it
			k.spoilt = true
		}
	}
	return nil
}

// maxAside bounds the objects that are kept only because no ref may lead to one, in bytes.
const maxAside = 1 << 30

// madeInside says whether objects were made inside: after a reset no ref leads to them. In a
// repository that jj has, too, jj keeps them.
func (k *keeping) madeInside() bool {
	made, _ := hostile.Measure(filepath.Join(k.private(), "objects"), "info")
	return hasTree(k.w) && made.Bytes > 0 && made.Bytes <= maxAside
}

// stashed are the commits of the stash but its newest, which is refs/stash: newest first.
func (k *keeping) stashed() (ids []string) {
	text, _ := k.from.read("logs/refs/stash", maxStashLog)
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 && isHex(fields[1]) {
			ids = append(ids, fields[1])
		}
	}
	slices.Reverse(ids)
	return ids[min(1, len(ids)):min(len(ids), maxStashed)]
}

// work keeps the branch, with what was not committed on top.
func (k *keeping) work(ctx context.Context, tip string) error {
	top := tip
	if k.w.Mode != forage.WorkspaceDirect && !gone(k.w.Path) {
		var err error
		if top, err = k.commitFiles(ctx, tip); err == nil && top != tip {
			err = k.stage.admit()
		}
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("keeping uncommitted work: %w", err)
			}
			// Nothing inside may keep the sandbox from being removed: the files are kept as they
			// are.
			if moved := k.moveAside("tree", k.w.Path); moved != nil {
				return fmt.Errorf("keeping uncommitted work: %w", errors.Join(err, moved))
			}
			top = tip
		}
	}
	if top == "" {
		return nil
	}
	if top == tip {
		if safe, err := k.host.contains(ctx, tip, TipRef(k.w)); err != nil || safe {
			return err
		}
	}
	return k.keep(ctx, workName, top)
}

// keep makes a recovery ref.
func (k *keeping) keep(ctx context.Context, name, id string) error {
	ref := k.prefix() + "/" + name
	if err := k.host.MoveBranch(ctx, ref, "", id, "forage: kept for recovery"); err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	k.kept = append(k.kept, workspace.Recovery{Sandbox: k.sandbox, Store: k.w.Repository.Store, Ref: ref, Made: k.made})
	return nil
}

func (k *keeping) prefix() string {
	prefix := RecoveryRefs + k.sandbox + "/" + k.made.Format(recoveryTime)
	if k.w.Name != "" && k.w.Name != workspace.Main {
		prefix += "-" + k.w.Name
	}
	return prefix
}

// commitFiles makes a commit of the files as they are, on top of tip, and returns it; tip when
// nothing differs.
func (k *keeping) commitFiles(ctx context.Context, tip string) (string, error) {
	tree, err := k.stage.WriteTree(ctx, Folder{
		Path: k.w.Path, Base: tip, Seed: k.host.Repository.IndexOf(ctx, k.w.Path), Rules: k.host.Rules(ctx, k.w), Submodules: true,
	})
	if err != nil {
		return "", err
	}
	left := tree.Nested
	k.spoilt = k.spoilt || len(left) > 0 // the repository of one whose .git is a file may be in the private metadata
	for _, file := range tree.Left {
		left = append(left, file.Path)
	}
	if err := k.moveFiles(left); err != nil {
		return "", err
	}
	was, args := "", []string{"commit-tree", tree.ID, "-m", k.sandbox + ": uncommitted work"}
	if tip != "" {
		was, err = k.stage.Line(ctx, "rev-parse", "--verify", tip+"^{tree}")
		args = append(args, "-p", tip)
	} else {
		was, err = k.stage.Line(ctx, "hash-object", "-t", "tree", "/dev/null") // that of no files
	}
	if err != nil || was == tree.ID {
		return tip, err
	}
	commit, err := k.stage.Git(ctx, Call{Args: args, Env: []string{
		"GIT_AUTHOR_NAME=forage", "GIT_AUTHOR_EMAIL=forage@localhost", "GIT_COMMITTER_NAME=forage", "GIT_COMMITTER_EMAIL=forage@localhost",
	}})
	return strings.TrimSpace(string(commit)), err
}

// aside is the folder for what can't be kept in git.
func (k *keeping) aside() string {
	places := workspace.Places{Repositories: filepath.Dir(filepath.Dir(k.w.Repository.Dir))}
	return places.Kept(k.sandbox, k.made, filepath.Base(k.w.Repository.Dir))
}

// moveAside moves a folder of w to where it is kept.
func (k *keeping) moveAside(name, path string) error {
	to := filepath.Join(k.aside(), name)
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		_ = workspace.Permit(path, 0o700) // rename(2) writes to a folder that it moves
		err = os.Rename(path, to)
	}
	if err != nil {
		return fmt.Errorf("keeping %s: %w", path, err)
	}
	k.noteAside()
	return nil
}

func (k *keeping) noteAside() {
	if !slices.ContainsFunc(k.kept, func(r workspace.Recovery) bool { return r.Folder == k.aside() }) {
		k.kept = append(k.kept, workspace.Recovery{Sandbox: k.sandbox, Folder: k.aside(), Made: k.made})
	}
}

// moveFiles moves files and nested repositories of the working folder to where they are kept. Their
// names come from inside: no link is followed on the way to one.
func (k *keeping) moveFiles(names []string) error {
	if len(names) > 0 {
		_ = workspace.Permit(k.w.Path, 0o700) // else renaming says why not
	}
	moved := make(map[string]bool)
	for _, name := range slices.Sorted(slices.Values(names)) { // a folder before what is in it
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is not below the folder", name)
		}
		up := name
		for up != "." && !moved[up] {
			up = filepath.Dir(up)
		}
		if moved[up] {
			continue
		}
		moved[name] = true
		to := filepath.Join(k.aside(), "files", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		parent, err := unix.Openat2(unix.AT_FDCWD, filepath.Join(workspace.Resolved(k.w.Path), filepath.Dir(name)), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
		if err == nil {
			err = errors.Join(unix.Renameat(parent, filepath.Base(name), unix.AT_FDCWD, to), unix.Close(parent))
		}
		if err != nil {
			return fmt.Errorf("keeping %q: %w", name, err)
		}
		k.noteAside()
	}
	return nil
}

// maxKeptName bounds a part of the name of a recovery ref, in bytes: NAME_MAX, less what git
// appends.
const maxKeptName = 200

// keptName is the name of the recovery ref for what a ref inside holds: its own, without refs/, or
// one that is made of it where its own is no name for a person to paste into a shell, which is what
// they are told to do.
func keptName(ref, id string) string {
	name := strings.TrimPrefix(ref, "refs/")
	tooLong := func(part string) bool { return len(part) > maxKeptName }
	if first, _, _ := strings.Cut(name, "/"); first != workName && plainName().MatchString(name) && !slices.ContainsFunc(strings.Split(name, "/"), tooLong) {
		return name
	}
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && plainName().MatchString(string(r)) {
			return r
		}
		return '-'
	}, name)
	return fmt.Sprintf("%.*s-%.12s", maxKeptName, plain, id)
}

// BeforeRemoval brings w up to date and does what how says about work that is nowhere else. Without
// an error w may be removed; branch is the commit at which the host's branch is to be deleted, ""
// when it stays or isn't there.
func BeforeRemoval(
	ctx context.Context, p workspace.Provider, w forage.Workspace, how workspace.Removal, places workspace.Places,
) (kept []workspace.Recovery, branch string, err error) {
	var status workspace.Status
	if how != workspace.RemoveChecked {
		looking, enough := context.WithTimeout(ctx, keepPatience)
		defer enough()
		_, updateErr := p.Update(looking, w)
		if status, err = p.Status(looking, w); err != nil {
			return nil, "", err
		}
		if updateErr != nil && status.Problem == "" {
			status.Problem = updateErr.Error()
		}
	}
	if how == workspace.RemoveSaved && status.Unsaved() {
		return nil, "", unsavedError(w, status)
	}
	jj := w.Repository.Kind == forage.RepositoryJJ // the user sees no branch of it
	stays := how == workspace.RemoveButBranch && status.CommitsCount > 0 && !jj
	if stays {
		kept = append(kept, workspace.Recovery{Sandbox: Sandbox(w), Store: w.Repository.Store, Ref: branchRef(w.Branch), Made: time.Now()})
		status.CommitsCount = 0
	}
	if status.Unsaved() {
		more, err := Keep(ctx, w, Sandbox(w), places.Scratch)
		if err != nil {
			return kept, "", fmt.Errorf("the work of %s can't be kept in its repository: %w", Sandbox(w), err)
		}
		kept = append(kept, more...)
	}
	r, gone := Moved(w)
	if stays || gone != nil {
		return kept, "", nil
	}
	refs, err := r.Refs(ctx, places.Scratch)
	branch = refs.Values[TipRef(w)]
	if status.Problem != "" && branch != w.Base && branch != LastImported(w, "") { // the user who moved the branch wants to have it
		branch = ""
	}
	return kept, branch, err
}

// Removing does BeforeRemoval for all parts of a workspace, and notes that it has begun. One that was killed is gone on with.
func Removing(
	ctx context.Context, p workspace.Provider, parts []forage.Workspace, how workspace.Removal, places workspace.Places,
) (removal Removal, kept []workspace.Recovery, err error) {
	removal, begun := ReadRemoval(*parts[0].Repository)
	if begun {
		return removal, nil, nil
	}
	for _, part := range parts {
		more, branch, err := BeforeRemoval(ctx, p, part, how, places)
		kept, removal.Branches = append(kept, more...), append(removal.Branches, branch)
		if err != nil {
			return removal, kept, err
		}
	}
	return removal, kept, BeginRemoval(*parts[0].Repository, removal)
}

// LastImported is where the last import left the host's branch of w, or otherwise if there was
// none.
func LastImported(w forage.Workspace, otherwise string) string {
	if state, err := loadImported(w); err == nil && state.Branch != "" {
		return state.Branch
	}
	return otherwise
}

// Sandbox is the name of the sandbox whose workspace w is.
func Sandbox(w forage.Workspace) string {
	if w.Repository == nil {
		return ""
	}
	part := w.Repository.Dir
	if w.Name != "" && filepath.Base(part) != w.Name { // of a submodule, which lies in that of the part
		part = filepath.Dir(part)
	}
	return filepath.Base(filepath.Dir(part))
}

// unsavedError says that work would be lost, and how to save it.
func unsavedError(w forage.Workspace, status workspace.Status) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "work would be lost: %d commits, %d changed files, commits at %q; %s",
			status.CommitsCount, status.UncommittedCount, status.Elsewhere, status.Problem),
		"see it with `forage-ctl diff "+Sandbox(w)+"`, bring it over with `forage-ctl apply "+Sandbox(w)+"`, or use --force, which keeps it for 30 days")
}

// removalFile, in private metadata where the sandbox can't write, says that nothing of a workspace
// is to be lost any more: a removal that was killed, or failed, is gone on with by the next. It
// goes last.
const removalFile = "removing"

// Removal is what a removal that has begun is to do.
type Removal struct {
	Branches []string `json:"branches,omitempty"` // at which commits those of the parts are to be deleted; "" is not
	Aside    string   `json:"aside,omitempty"`    // where the repository of a clone is kept; "" is nowhere
}

// Branch is at which commit the branch of a part is to be deleted; "" is not.
func (r Removal) Branch(part int) string {
	if part < len(r.Branches) {
		return r.Branches[part]
	}
	return ""
}

// BeginRemoval notes that a workspace is about to be removed.
func BeginRemoval(repository forage.Repository, r Removal) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(repository.Dir, 0o700) // the user may have taken it away
	}
	if err != nil {
		return err
	}
	if r.Aside == "" { // half a note is none: the removal begins anew, and loses nothing
		return os.WriteFile(filepath.Join(repository.Dir, removalFile), text, 0o600)
	}
	return renameio.WriteFile(filepath.Join(repository.Dir, removalFile), text, 0o600, renameio.WithTempDir(repository.Dir))
}

// ReadRemoval is what BeginRemoval noted.
func ReadRemoval(repository forage.Repository) (r Removal, begun bool) {
	text, err := os.ReadFile(filepath.Join(repository.Dir, removalFile))
	return r, err == nil && json.Unmarshal(text, &r) == nil
}

// Removed says whether nothing is there any more that was made for w.
func Removed(w forage.Workspace) bool {
	return gone(w.Repository.Dir) && (w.Mode == forage.WorkspaceDirect || gone(w.Path))
}

// StillListed says whether a worktree that was removed while its repository was gone is listed
// there: the repository is back.
func StillListed(w forage.Workspace) bool {
	if w.Mode != forage.WorkspaceWorktree || w.Repository == nil || !Removed(w) {
		return false
	}
	r, err := Moved(w)
	if err != nil {
		return false
	}
	_, ours := r.WorktreeAt(w.Branch, w.Path)
	return ours
}

// RemovalBegun says whether nothing of w is to be lost any more: its removal has begun, or it was
// removed.
func RemovalBegun(w forage.Workspace) bool {
	_, begun := ReadRemoval(*w.Repository)
	return begun || Removed(w)
}

// RemovePrivate takes away all private metadata of a workspace, and what is noted beside it.
func RemovePrivate(repository forage.Repository) error {
	// From one moment to the next: what is half gone would be taken for work that can't be read.
	removed := repository.Dir + ".removed"
	err := hostile.RemoveAll(removed)
	if gone := os.Rename(repository.Dir, removed); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	err = errors.Join(err, hostile.RemoveAll(removed))
	for _, suffix := range [...]string{importedSuffix, lockSuffix, indexSuffix, refsSuffix, takenSuffix} {
		if gone := os.Remove(repository.Dir + suffix); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	_ = os.Remove(filepath.Dir(repository.Dir)) // the sandbox's, if this was its last part
	return err
}
