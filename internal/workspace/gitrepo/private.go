package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// gitDir is a git directory of ours, as it is to be made.
type gitDir struct {
	head    string // what HEAD says
	config  string
	borrows []string // folders of objects
	refs    Refs
	copies  map[string]string // files that it has as they are elsewhere, if they are there
}

func (g gitDir) make(dir string) error {
	files := map[string]string{"HEAD": g.head + "\n", "config": g.config, "packed-refs": packed(g.refs.Values)}
	if len(g.borrows) > 0 {
		files["objects/info/alternates"] = strings.Join(g.borrows, "\n") + "\n"
	}
	for name, target := range g.refs.Symbolic {
		files[name] = "ref: " + target + "\n"
	}
	for name, from := range g.copies {
		text, err := workspace.ReadFile(from, 0, maxConfig)
		if err == nil {
			files[name] = string(text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, sub := range [...]string{"refs/heads", "refs/tags", "objects/info", "objects/pack", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// packed is a file packed-refs.
func packed(values map[string]string) string {
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString(values[name] + " " + name + "\n")
	}
	return b.String()
}

// Private is what CreatePrivate makes.
type Private struct {
	Repository forage.Repository // where, over which store, and how it is shown
	Branch     string            // inside, HEAD is this branch; "" is detached
	Base       string            // at this commit; "" is a branch without a commit
	Index      string            // an index file of the host's to begin with; "" has git make one of Base when it is first used
	Unfinished bool              // carry what a merge, cherry-pick or revert in the host's folder waits for
	Remotes    bool              // carry the remotes of the host's repository, without what is secret in their URLs
	Refs       Refs              // what else there is inside; its zero value is: the host's own
	Scratch    string            // for what lives no longer than the call
}

// CreatePrivate makes the private git directory of a workspace: our own configuration, copies of
// the host's refs, and the host's objects as alternates, by the path at which they are shown
// inside.
func CreatePrivate(ctx context.Context, r *Repository, p Private) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir := filepath.Join(p.Repository.Dir, "git")
	if err = os.MkdirAll(p.Repository.Dir, 0o700); err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("making private repository metadata: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making private repository metadata: %w", err), hostile.RemoveAll(dir))
		}
	}()
	if p.Refs.Values == nil {
		if p.Refs, err = r.Refs(ctx, p.Scratch); err != nil {
			return err
		}
	}
	p.Refs = Refs{Values: maps.Clone(p.Refs.Values), Symbolic: maps.Clone(p.Refs.Symbolic)}
	maps.DeleteFunc(p.Refs.Values, func(name, _ string) bool { return isHidden(name) })
	maps.DeleteFunc(p.Refs.Symbolic, func(name, _ string) bool { return isHidden(name) })
	if hostInside(p.Repository) != "" {
		if err := r.makeView(ctx, p); err != nil {
			return err
		}
	}
	made := gitDir{
		head: cmp.Or(p.Base, "ref: "+branchRef("main")), config: r.privateConfig(p.Remotes, hostInside(p.Repository)),
		borrows: objectsInside(p.Repository), refs: p.Refs, copies: r.copied(p.Unfinished),
	}
	if host := hostInside(p.Repository); host != "" {
		made.borrows = append(made.borrows, path.Join(host, "objects")) // tags: see pin
	}
	if p.Branch != "" {
		made.head = "ref: " + branchRef(p.Branch)
		if p.Base != "" {
			made.refs.Values[branchRef(p.Branch)] = p.Base
		}
	}
	if err := made.make(dir); err != nil {
		return err
	}
	// What was copied is kept where the sandbox can't change it.
	err = os.WriteFile(p.Repository.Dir+refsSuffix, []byte(packed(made.refs.Values)), 0o600)
	if p.Index != "" && !gone(p.Index) {
		err = errors.Join(err, CopyIndex(p.Index, filepath.Join(dir, "index")))
	}
	return errors.Join(err, writeBeside(p.Repository))
}

// copied are files that are taken over as they are: what the history ends at, and which files
// count.
func (r *Repository) copied(unfinished bool) map[string]string {
	files := map[string]string{"info/sparse-checkout": filepath.Join(r.GitDir, "info/sparse-checkout")}
	for _, name := range [...]string{"shallow", "info/exclude", "info/attributes"} {
		files[name] = filepath.Join(r.Common, name)
	}
	if unfinished {
		for _, name := range [...]string{"MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
			files[name] = filepath.Join(r.GitDir, name)
		}
	}
	return files
}

// Layout is where private metadata is, and what it is shown over.
type Layout struct {
	Dir      string      // on the host; nothing need be there yet
	Part     string      // of the workspace: names the place of the objects inside
	Target   string      // of the workspace inside
	Pointer  bool        // the workspace on the host has a .git file, not a folder
	ReadOnly bool        //
	Host     bool        // the user's branches are shown as a remote
	Objects  []ObjectDir // the host's: the repository's own first
}

// Planned begins the plan of a part: its names, a working folder of its own, and where its metadata is.
func Planned(request workspace.Request, mode forage.WorkspaceMode) (forage.Workspace, Layout) {
	w := forage.Workspace{
		Name: request.Name, Mode: mode, Target: request.Target, ReadOnly: request.ReadOnly,
		Path: workspace.Resolved(request.Places.Tree(request.Sandbox, request.Name)), Branch: Branch(request.Sandbox, request.Name),
	}
	return w, Layout{
		Dir:  workspace.Resolved(request.Places.Repository(request.Sandbox, request.Name)),
		Part: request.Name, Target: request.Target, Pointer: true, ReadOnly: request.ReadOnly,
	}
}

// ObjectDir is a folder of objects on the host.
type ObjectDir struct {
	Path string // links resolved
	// Borrows: it has a file info/alternates, which names paths of the host's and must not be read
	// inside.
	Borrows bool
}

// ObjectDirs are the folders with all objects of the repository: its own and, for a store of ours,
// those it borrows from.
func (r *Repository) ObjectDirs() ([]ObjectDir, error) {
	own := filepath.Join(r.Common, "objects")
	text, err := workspace.ReadFile(filepath.Join(own, "info/alternates"), 0, maxPointer)
	found := []ObjectDir{{Path: filepath.Join(workspace.Resolved(r.Common), "objects"), Borrows: err == nil}}
	for line := range strings.Lines(string(text)) {
		dir, err := filepath.EvalSymlinks(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "the repository %s has lost objects: %w", r.Common, err), "look at its objects/info/alternates")
		}
		found = append(found, ObjectDir{Path: dir})
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

// Names of what is in a private folder beside git/.
const (
	pointerFile = "pointer"    // a .git file
	emptyFile   = "alternates" // shown over the info/alternates of the host's objects
)

// Mounts show private metadata inside, and the host's objects read-only.
func (l Layout) Mounts() []forage.Mount {
	place := path.Join(forage.RepositoriesPath, l.Part)
	var mounts []forage.Mount
	for i, objects := range l.Objects {
		target := path.Join(place, "objects")
		if i > 0 {
			target += "." + strconv.Itoa(i)
		}
		mounts = append(mounts, forage.Mount{Source: objects.Path, Target: target})
		if objects.Borrows {
			mounts = append(mounts, forage.Mount{Source: filepath.Join(l.Dir, emptyFile), Target: path.Join(target, "info/alternates")})
		}
	}
	if l.Host {
		mounts = append(mounts, forage.Mount{Source: filepath.Join(l.Dir, hostRemote), Target: path.Join(place, hostRemote)})
	}
	git := forage.Mount{Source: filepath.Join(l.Dir, "git"), Target: path.Join(l.Target, ".git"), Writable: !l.ReadOnly}
	if !l.Pointer {
		return append(mounts, git)
	}
	pointer := forage.Mount{Source: filepath.Join(l.Dir, pointerFile), Target: git.Target}
	git.Target = path.Join(place, "git")
	return append(mounts, git, pointer)
}

// objectsInside are the places at which the host's objects are shown.
func objectsInside(repository forage.Repository) (places []string) {
	for _, m := range repository.Mounts {
		if name := path.Base(m.Target); name == "objects" || strings.HasPrefix(name, "objects.") {
			places = append(places, m.Target)
		}
	}
	return places
}

// shownAt is where a file or folder of ours is shown; "" is nowhere.
func shownAt(repository forage.Repository, name string) string {
	for _, m := range repository.Mounts {
		if m.Source == filepath.Join(repository.Dir, name) {
			return m.Target
		}
	}
	return ""
}

// writeBeside makes what is shown beside the private git directory: neither is ever writable
// inside.
func writeBeside(repository forage.Repository) (err error) {
	for name, text := range map[string]string{pointerFile: "gitdir: " + shownAt(repository, "git") + "\n", emptyFile: ""} {
		if shownAt(repository, name) != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(repository.Dir, name), []byte(text), 0o600))
		}
	}
	return err
}

// PlanPrivate decides how private metadata over the repository is laid out. It makes nothing.
func (r *Repository) PlanPrivate(l Layout, head string) (*forage.Repository, error) {
	var err error
	if l.Objects, err = r.ObjectDirs(); err != nil {
		return nil, err
	}
	return &forage.Repository{Kind: forage.RepositoryGit, Dir: l.Dir, Store: r.Common, Head: head, Mounts: l.Mounts()}, nil
}

// Branch is the branch of the host's repository that a part of a sandbox has for itself.
func Branch(sandbox, part string) string {
	if part == workspace.Main {
		return workspace.BranchPrefix + sandbox
	}
	return workspace.BranchPrefix + sandbox + "." + part
}

// carriedInside are the settings that private metadata takes from the host's repository beside
// those of a shadow: what makes git behave as its user is used to. Whatever they do, they do it
// inside; but some settings hold secrets, so it is a list of what is known not to.
var carriedInside = [...]string{
	"core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse", "core.commentchar", "core.quotepath",
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"push.default", "push.autosetupremote", "push.followtags", "pull.rebase", "pull.ff", "merge.ff", "merge.conflictstyle",
	"rebase.autosquash", "rebase.autostash", "rebase.updaterefs", "rerere.enabled", "fetch.prune", "remote.pushdefault",
	"branch.autosetupmerge", "branch.autosetuprebase", "diff.algorithm", "diff.renames", "commit.cleanup",
	"i18n.commitencoding", "i18n.logoutputencoding",
}

// carriedBy are settings with a subsection: by section, the names.
var carriedBy = map[string][]string{
	"remote":    {"url", "pushurl", "fetch", "push", "tagopt", "prune", "mirror"},
	"branch":    {"remote", "merge", "pushremote", "rebase", "description"},
	"submodule": {"url", "branch", "active", "ignore"},
}

// privateConfig is the whole configuration of private metadata. host is where the user's branches
// are shown inside; "" is nowhere.
func (r *Repository) privateConfig(remotes bool, host string) string {
	c := configText{}
	c.add("core.repositoryformatversion", "0")
	if r.ObjectFormat != "sha1" {
		c.set("core.repositoryformatversion", "1")
		c.add("extensions.objectformat", r.ObjectFormat)
	}
	c.add("core.bare", "false")
	c.add("core.logallrefupdates", "true")
	if os.Geteuid() == 0 {
		// The agent is somebody else then, and what it sees of its files' owners is mapped: they
		// look changed to git.
		c.add("core.checkstat", "minimal")
	}
	for _, key := range slices.Concat(carried[:], carriedInside[:]) {
		switch key {
		case "core.repositoryformatversion", "extensions.objectformat", "core.sharedrepository":
			continue // of the host's own files
		}
		if value := r.last(key); value != "" && c[key] == nil {
			c.add(key, value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Config)) {
		section, rest, _ := strings.Cut(key, ".")
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 || !slices.Contains(carriedBy[section], rest[dot+1:]) || section == "remote" && !remotes {
			continue
		}
		for _, value := range r.Config[key] {
			if strings.HasSuffix(key, "url") {
				value = publicURL(value)
			}
			if value != "" {
				c.add(key, value)
			}
		}
	}
	if host != "" && r.last("remote."+hostRemote+".url") == "" { // else the user has a remote of that name
		c.add("remote."+hostRemote+".url", host)
		c.add("remote."+hostRemote+".fetch", "+refs/heads/*:refs/remotes/"+hostRemote+"/*")
		c.add("remote."+hostRemote+".tagopt", "--no-tags")
		c.add("remote."+hostRemote+".prune", "true")
	}
	return c.String()
}

// publicURL is an address without what may be secret in it; "" for one of which that is not known:
// a command, or the address of a helper.
func publicURL(address string) string {
	before, _, named := strings.Cut(address, "@")
	whole := strings.Contains(address, "://")
	if strings.Contains(address, "::") || !whole && named && strings.Contains(before, ":") {
		return ""
	}
	if !whole {
		return address // a path, or user@host:path, which has no place for a password
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	name := u.User.Username()
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	if strings.Contains(u.Scheme, "ssh") && name != "" {
		u.User = url.User(name) // with others, a token may be in the place of the name
	}
	return u.String()
}

// configText is a configuration that is being written: key to values.
type configText map[string][]string

func (c configText) add(key, value string) { c[key] = append(c[key], value) }
func (c configText) set(key, value string) { c[key] = []string{value} }

// String is the configuration in the syntax of git-config(1).
func (c configText) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c)) {
		section, rest, _ := strings.Cut(key, ".")
		name := rest
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			name = rest[dot+1:]
			section += " " + quoteSubsection(rest[:dot])
		}
		for _, value := range c[key] {
			fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, Quote(value))
		}
	}
	return b.String()
}

func quoteSubsection(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", "", "\x00", "").Replace(name) + `"`
}

// The user's branches are shown inside as a remote: a bare repository of ours without objects of
// its own, read-only. A fetch from it finds all objects in the folders that private metadata
// borrows from. Its branches are written anew when the user's have moved.

// hostRemote is the name of the remote, and of its folder in the private one.
const hostRemote = "host"

// PinRef holds what was shown inside of the user's repository: a branch that the user deletes is
// collected by their git, and the repository inside would be broken. It is a commit of ours, with
// all that was ever shown as its ancestors.
func PinRef(branch string) string { return "refs/forage/pin/" + branch }

// viewFolder is where the remote is on the host.
func viewFolder(repository forage.Repository) string {
	return filepath.Join(repository.Dir, hostRemote)
}

// hostInside is where the remote is shown; "" if it isn't.
func hostInside(repository forage.Repository) string { return shownAt(repository, hostRemote) }

// makeView makes the remote. What it and the private metadata show is pinned first.
func (r *Repository) makeView(ctx context.Context, p Private) error {
	tips := []string{p.Base}
	tips = slices.AppendSeq(tips, maps.Values(p.Refs.Values))
	if err := r.pin(ctx, p.Branch, tips, p.Scratch, filepath.Join(viewFolder(p.Repository), "objects")); err != nil {
		return err
	}
	config := configText{"core.bare": {"true"}, "core.repositoryformatversion": {"1"}, "extensions.objectformat": {r.ObjectFormat}}
	return gitDir{
		head: "ref: " + branchRef(cmp.Or(r.Head, "main")), config: config.String(), borrows: objectsInside(p.Repository),
		refs: Refs{Values: userBranches(p.Refs)}, copies: map[string]string{"shallow": filepath.Join(r.Common, "shallow")},
	}.make(viewFolder(p.Repository))
}

// userBranches are the branches but those of sandboxes.
func userBranches(refs Refs) map[string]string {
	branches := make(map[string]string)
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(refs.Values)), maps.Keys(refs.Symbolic)) {
		id := refs.Resolve(name)
		if strings.HasPrefix(name, branchRef("")) && !strings.HasPrefix(name, branchRef(workspace.BranchPrefix)) && id != "" {
			branches[name] = id
		}
	}
	return branches
}

// ShowHost brings the remote of w to where the user's branches are now. It starts no git when they
// haven't moved.
func ShowHost(ctx context.Context, w forage.Workspace, scratch string) error {
	file := filepath.Join(viewFolder(*w.Repository), "packed-refs")
	if gone(file) {
		return nil // none was made
	}
	refs, err := refsIn(w.Repository.Store)
	if err != nil {
		_, moved := Moved(w)
		return cmp.Or(moved, err)
	}
	tips := userBranches(refs)
	now := packed(tips)
	shown, err := os.ReadFile(file)
	if err != nil || now == string(shown) {
		return err
	}
	unlock, err := workspace.Lock(ctx, viewFolder(*w.Repository)+lockSuffix)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := Moved(w)
	if err != nil {
		return err
	}
	had, err := parsePacked(shown)
	if err != nil {
		return err
	}
	pinned := make(map[string]bool)
	for _, id := range had {
		pinned[id] = true
	}
	maps.DeleteFunc(tips, func(_, id string) bool { return pinned[id] })
	if err := r.pin(ctx, w.Branch, slices.Collect(maps.Values(tips)), scratch, ""); err != nil {
		return err
	}
	return renameio.WriteFile(file, []byte(now), 0o600, renameio.WithTempDir(filepath.Dir(viewFolder(*w.Repository))))
}

// pin adds commits, and what tags point to, to those that the pin of a sandbox's branch holds. A
// commit can't hold tags: these are copied to the folder of objects in copies; "" is nowhere.
func (r *Repository) pin(ctx context.Context, branch string, ids []string, scratch, copies string) (err error) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return nil
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer func() {
		if err != nil {
			err = fmt.Errorf("pinning what is shown inside: %w", lockedHint(err, PinRef(branch)))
		}
	}()
	slices.Sort(ids)
	ids = slices.Compact(ids)
	asked := strings.Join(ids, "\n") + "\n" + strings.Join(ids, "^{commit}\n") + "^{commit}\n"
	known, err := s.Git(ctx, Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, Stdin: []byte(asked)})
	if err != nil {
		return err
	}
	before, err := s.Branch(ctx, PinRef(branch))
	if err != nil {
		return err
	}
	var b, tags strings.Builder
	why := "what the sandbox of " + branch + " needs; `forage-ctl down` removes this ref\n"
	fmt.Fprintf(&b, "commit %s\ncommitter forage <forage@localhost> %d +0000\ndata %d\n%s", PinRef(branch), time.Now().Unix(), len(why), why)
	if before != "" {
		b.WriteString("from " + before + "\n")
	}
	pinned := make(map[string]bool)
	for line := range strings.Lines(string(known)) { // what is missing is neither, and a tag may be of something else
		id, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case kind == "commit" && !pinned[id]:
			pinned[id] = true
			b.WriteString("merge " + id + "\n")
		case kind == "tag":
			tags.WriteString(id + "\n")
		}
	}
	b.WriteString("deleteall\n\ndone\n")
	if _, err := s.Git(ctx, Call{Args: []string{"fast-import", "--quiet", "--done"}, Stdin: []byte(b.String())}); err != nil || tags.Len() == 0 || copies == "" {
		return err
	}
	if err := os.MkdirAll(filepath.Join(copies, "pack"), 0o700); err != nil {
		return err
	}
	_, err = s.Git(ctx, Call{Args: []string{"pack-objects", "-q", filepath.Join(copies, "pack/pack")}, Stdin: []byte(tags.String())})
	return err
}

// PinFork has the pin of a fork hold what that of the first holds: the fork has its refs.
func PinFork(ctx context.Context, from, to forage.Workspace, scratch string) error {
	if hostInside(*from.Repository) == "" || hostInside(*to.Repository) == "" {
		return nil
	}
	r, err := Moved(to)
	if err != nil {
		return err
	}
	refs, err := r.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	return r.pin(ctx, to.Branch, []string{refs.Values[PinRef(from.Branch)]}, scratch, "")
}
