package gitrepo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/hostile"
	"forage/internal/jail"
	"forage/internal/workspace"
)

// A working folder is hostile, and changes while it is read. A git in a jail reads it, with a git
// directory and an index of ours. The jail shows that folder and the objects alone, so a link that
// appears in it at the wrong moment leads to no file of the user's. What the jail writes is read in
// a jail again, or comes out as a pack.

// Tree is the content of a working folder as an object of git.
type Tree struct {
	ID string // hex
	// Nested are repositories inside the folder, relative to it. They are left out.
	Nested []string
	// Left are files that are left out although nothing ignores them.
	Left []Left
}

// Left is a file that is not in a Tree, and why. Path comes from inside: escape it.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Folder is a working folder that a Tree is made of.
type Folder struct {
	Path  string
	Base  string // the commit that its files are tracked by; "" is none
	Index string // a file of ours that makes the next call quicker; it may be absent. "" is none
	// Seed is an index of the host's to begin with where there is no Index yet. "" or an absent one
	// is none.
	Seed string
	// Rules are the commits and folders whose .gitignore files count: see Shadow.Rules. None: all
	// new rules count.
	Rules []string
	Named []string // files and folders that count although only new rules ignore them
	Most  int64    // bytes of changed files that are read, the rest is left out; 0 is 16 GiB
	// Submodules says that a submodule with a repository counts as Nested: it was made inside, and
	// may have commits.
	Submodules bool
}

// Bounds of a look at a folder, and of the files that go into a tree.
const (
	lookCPU      = 15 * time.Second
	maxTreeFile  = 4 << 30  // bytes; larger ones are left out
	maxTreeBytes = 16 << 30 // of all files of one tree; the rest is left out: holes cost nothing inside
	maxIndex     = 1 << 30  // bytes of an index file: millions of files
)

var errTooLong = errors.New("git took too long to look through the files")

// TooLong says what may be the reason that a look took too long.
func TooLong(err error) error {
	var exit interface{ ExitCode() int }
	killed := errors.As(err, &exit) && exit.ExitCode() > 128 // a shell's word for a signal
	if errors.Is(err, errTooLong) || !killed && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, hostexec.ErrCPU) {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%w: %w", errTooLong, err),
		"patterns in a .gitignore or .gitattributes may take exponential time, one of these may be a FIFO, or there are millions of files: "+
			"look inside, and remove them; `forage-ctl down --force` keeps the files without asking git")
}

// WriteTree makes a tree of what is in a folder now: tracked and untracked files, without what is
// ignored. No filter runs. Objects go to the shadow's: see Staging.
func (s *Shadow) WriteTree(ctx context.Context, folder Folder) (tree Tree, err error) {
	l, err := s.look(ctx, folder)
	if err == nil {
		tree, err = l.record(ctx)
		err = errors.Join(err, l.close())
	}
	if err != nil {
		return tree, fmt.Errorf("reading the files of %s: %w", folder.Path, TooLong(err))
	}
	return tree, nil
}

// looking is one look at a folder, and what it has found.
type looking struct {
	shadow *Shadow
	folder Folder
	root   *os.Root
	dir    string // the jail's git directory, to which it writes
	jail   jail.Command

	changed, removed []string // files that are not as the base has them, or that it has not
	nested           []string // repositories in the folder
	closed           []string // folders into which git can't look: there may be work in one
	unlinked         []string // folders of submodules with files, and without a repository
	hidden           []string // what only rules ignore that are new; folders have a slash at their end
	begins           string   // with an index that is kept, seeded by one of the host's, or new
	began            time.Time
	newest           int64 // the second in which the last file of the index was changed
}

func (l *looking) close() error { return errors.Join(l.root.Close(), hostile.RemoveAll(l.dir)) }

// openLook makes the git directory, with the index to begin with.
func (s *Shadow) openLook(ctx context.Context, folder Folder) (_ *looking, err error) {
	folder.Path = workspace.Resolved(folder.Path)
	if err := workspace.Permit(folder.Path, 0o500); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(folder.Path)
	if err != nil {
		return nil, err
	}
	l := &looking{shadow: s, folder: folder, root: root, began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	place := s.Dir // which may be in memory; where objects are written there is a disk
	if len(s.objects) > 0 {
		place = s.objects[0]
	}
	if l.dir, err = os.MkdirTemp(workspace.Resolved(place), "tmp_look"); err != nil {
		return nil, err
	}
	head := "ref: refs/heads/none"
	if isHex(folder.Base) {
		head = folder.Base
	} else if folder.Base != "" {
		if head, err = s.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", folder.Base+"^{commit}"); err != nil {
			return nil, fmt.Errorf("the base %s is not in the repository: %w", folder.Base, err)
		}
		l.folder.Base = head
	}
	// Git then sees to it by itself that a file which is there counts, though a sparse checkout
	// leaves it out. The change time counts, which the agent can't set.
	const config = "[core]\n\tsparseCheckout = true\n\ttrustctime = true\n\tcheckStat = default\n"
	readOnly, err := s.BareOver(l.dir, head, config, s.objects...)
	if err != nil {
		return nil, err
	}
	l.jail = s.jailed(l.dir, append(readOnly, folder.Path))
	l.jail.Writable, l.jail.Dir = []string{l.dir}, folder.Path
	l.jail.Env = append(l.jail.Env, "GIT_WORK_TREE="+folder.Path, "GIT_INDEX_FILE="+l.index(), "GIT_OPTIONAL_LOCKS=1")
	l.jail.Limits.FileSize = maxTreeBytes
	l.begins = "kept"
	if folder.Index == "" || CopyIndex(folder.Index, l.index()) != nil {
		l.begins = "seeded"
		if folder.Seed == "" || CopyIndex(folder.Seed, l.index()) != nil {
			l.begins = "new"
		}
	}
	return l, nil
}

func (l *looking) index() string { return filepath.Join(l.dir, "index") }

// CopyIndex copies an index with its time: by that, git knows which of its entries were written in
// the same instant as their files, and looks into those again.
func CopyIndex(from, to string) error { return workspace.CopyFile(from, to, maxIndex) }

// lookScript finds what differs: `git status`, an empty field, and the index. A kept index that is
// damaged is made anew. A new one knows no sizes: git would read a file of any length to the end.
const lookScript = `git read-tree -m "$1" 2>/dev/null || { rm -f "$GIT_INDEX_FILE"; git read-tree "$1"; }
case $2 in
seeded) git update-index -q --really-refresh >/dev/null || : ;;
new)
	git ls-files -z | sed -z 's|^|./|' | xargs -0 -r sh -c 'find "$@" -maxdepth 0 -size +"$0"c -print0 2>/dev/null || :' "$3" | sed -z 's|^\./||' >"$GIT_DIR/large"
	git update-index -z --assume-unchanged --stdin <"$GIT_DIR/large"
	sed -z 's|^| M |' "$GIT_DIR/large" ;;
esac
git status --porcelain -z --no-renames --untracked-files=all --ignored=matching --ignore-submodules=all
printf '\000'
[ ! -s "$GIT_DIR/large" ] || git update-index -z --no-assume-unchanged --stdin <"$GIT_DIR/large"
git ls-files -s --debug -z`

// look finds out what in a folder is not as its base has it.
func (s *Shadow) look(ctx context.Context, folder Folder) (_ *looking, err error) {
	l, err := s.openLook(ctx, folder)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	var out, said bytes.Buffer
	c := l.jail
	c.Args = []string{"sh", "-ec", lookScript, "sh", cmp.Or(l.folder.Base, "--empty"), l.begins, strconv.Itoa(maxTreeFile)}
	c.Stdout, c.Stderr, c.Limits.Output, c.Limits.CPU, c.Limits.Time = &out, &said, callOutput, cmp.Or(s.brief, lookCPU), deadline.Progress
	if err := c.Run(ctx); err != nil {
		return nil, err
	}
	status, entries, _ := bytes.Cut(append([]byte{0}, out.Bytes()...), []byte{0, 0})
	var ignored []string
	for field := range fields(append(bytes.TrimPrefix(status, []byte{0}), 0)) {
		if len(field) < 4 {
			continue
		}
		name := field[3:]
		switch {
		case field[:2] == "!!":
			ignored = append(ignored, name)
		case strings.HasSuffix(name, "/"):
			l.nested = append(l.nested, strings.TrimSuffix(name, "/"))
		case field[1] == 'D':
			l.removed = append(l.removed, name)
		case field[1] != ' ':
			l.changed = append(l.changed, name)
		}
	}
	seen := map[string]bool{".": true}
	for entry := range fields(entries) {
		if times, is := strings.CutPrefix(entry, "  ctime: "); is { // of the one before, in five lines
			second, _, _ := strings.Cut(times, ":")
			changed, _ := strconv.ParseInt(second, 10, 64)
			l.newest = max(l.newest, changed)
			if parts := strings.SplitN(times, "\n", 6); len(parts) == 6 {
				entry = parts[5]
			}
		}
		head, name, _ := strings.Cut(entry, "\t")
		if strings.HasPrefix(head, "160000 ") { // a submodule, or what was committed as if it were one
			has, unread := hostile.Measure(filepath.Join(l.folder.Path, name), "")
			switch is, file := l.repository(name); {
			case !is && (has.Files > 0 || unread != nil && !gone(filepath.Join(l.folder.Path, name))):
				l.unlinked = append(l.unlinked, name)
			case is && (!file || l.folder.Submodules): // a submodule's .git is a file
				l.nested = append(l.nested, name)
			}
		}
		l.repositoriesAround(name, seen)
	}
	for _, name := range l.changed {
		l.repositoriesAround(name, seen)
	}
	slices.Sort(l.nested)
	l.nested = slices.Compact(l.nested)
	for line := range strings.Lines(said.String()) {
		name, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "warning: could not open directory '")
		if end := strings.LastIndex(name, "': "); is && end >= 0 && !strings.HasSuffix(name, ": No such file or directory") {
			l.closed = append(l.closed, strings.TrimSuffix(name[:end], "/"))
		}
	}
	if l.hidden, err = l.newlyIgnored(ctx, ignored); err != nil {
		return nil, err
	}
	l.hidden = slices.DeleteFunc(l.hidden, l.named)
	l.keep()
	return l, nil
}

// named adds the files of what is hidden that are named to count, and says whether that is all of
// it.
func (l *looking) named(hidden string) (all bool) {
	hidden = strings.TrimSuffix(hidden, "/")
	for _, name := range l.folder.Named {
		all = all || name == "." || name == hidden || strings.HasPrefix(hidden, name+"/")
		if all {
			name = hidden
		} else if !strings.HasPrefix(name, hidden+"/") {
			continue
		}
		_ = fs.WalkDir(l.root.FS(), name, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fs.SkipDir
			case !entry.IsDir() && path.Base(file) != ".git":
				l.changed = append(l.changed, file)
			case entry.IsDir() && path.Base(file) == ".git":
				return fs.SkipDir
			}
			return nil
		})
	}
	slices.Sort(l.changed)
	l.changed = slices.Compact(l.changed)
	return all
}

// repository says whether a folder has a .git, and whether that is a file.
func (l *looking) repository(folder string) (is, file bool) {
	info, err := l.root.Lstat(path.Join(folder, ".git"))
	return err == nil, err == nil && !info.IsDir()
}

// repositoriesAround adds the folders around a file that are repositories. Git takes a folder for
// none if the index has files in it, or its .git leads nowhere in the jail.
func (l *looking) repositoriesAround(name string, seen map[string]bool) {
	for dir := path.Dir(name); !seen[dir]; dir = path.Dir(dir) {
		seen[dir] = true
		if is, _ := l.repository(dir); is {
			l.nested = append(l.nested, dir)
		}
	}
}

// keep keeps the index for the next time, unless it has a file that was changed so short a time
// before that a change after the look may leave the same times: git compares the seconds. That it
// can't be kept only costs time.
func (l *looking) keep() {
	if l.folder.Index == "" || workspace.Racy(unix.Timespec{Sec: l.newest}, l.began) {
		return
	}
	if temporary := l.folder.Index + "." + filepath.Base(l.dir); CopyIndex(l.index(), temporary) == nil {
		_ = os.Rename(temporary, l.folder.Index)
	}
}

// names are all that was found. Folders have a slash at their end.
func (l *looking) names() []string {
	all := slices.Concat(l.changed, l.removed, l.hidden)
	for _, folder := range slices.Concat(l.nested, l.closed, l.unlinked) {
		all = append(all, folder+"/")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// recordScript puts files into the index, and writes what is in it, an empty field, the id of its
// tree and a pack with what the base has not. Without an index it begins with the base's.
const recordScript = `[ -e "$GIT_INDEX_FILE" ] || git read-tree "${1:---empty}"
git update-index -z --force-remove --stdin < "$GIT_DIR/removed"
git update-index -z --add --replace --stdin < "$GIT_DIR/added"
git ls-files -s -z
printf '\000'
tree=$(git write-tree)
echo "$tree"
{ echo "$tree"; [ -z "$1" ] || echo "^$1^{tree}"; } | git pack-objects -q --revs --stdout`

// record makes the tree of what was found.
func (l *looking) record(ctx context.Context) (Tree, error) {
	tree := Tree{Nested: l.nested}
	for _, name := range l.hidden {
		left := Left{name, "ignored only by a rule that is new"}
		if folder, is := strings.CutSuffix(name, "/"); is {
			left = Left{folder, left.Why + ": a folder with " + CountFiles(filepath.Join(l.folder.Path, folder))}
		}
		tree.Left = append(tree.Left, left)
	}
	for _, folder := range l.closed {
		tree.Left = append(tree.Left, Left{folder, "a folder that can't be looked into"})
	}
	for _, folder := range l.unlinked {
		const why = "a submodule's folder without a repository, with "
		tree.Left = append(tree.Left, Left{folder, why + CountFiles(filepath.Join(l.folder.Path, folder))})
	}
	var added []string
	var removed strings.Builder
	for _, name := range l.removed {
		removed.WriteString(name + "\x00")
	}
	left := cmp.Or(l.folder.Most, maxTreeBytes)
	for _, name := range l.changed {
		info, err := l.root.Lstat(name)
		switch why := l.unfit(name, info, left); {
		case err != nil && UnsafePath(name) == "":
			removed.WriteString(name + "\x00")
		case why != "":
			tree.Left = append(tree.Left, Left{name, why})
		case info.IsDir(): // a repository where a file was
			removed.WriteString(name + "\x00")
			tree.Nested = append(tree.Nested, name)
		default:
			left -= info.Size()
			added = append(added, name)
		}
	}
	size := cmp.Or(l.folder.Most, maxTreeBytes) - left
	err := os.WriteFile(filepath.Join(l.dir, "removed"), []byte(removed.String()), 0o600)
	if err != nil {
		return tree, err
	}
	ids := make(map[string]string) // "": git passes over a name, such as a link .gitmodules
	tree.ID, err = l.write(ctx, ids, added, size)
	if err != nil && tree.ID == "" && ctx.Err() == nil { // an attribute may name an encoding that a file isn't in
		const none = "* !text !eol !crlf !ident !working-tree-encoding\n"
		err = os.WriteFile(filepath.Join(l.dir, "info/attributes"), []byte(none), 0o600)
		if err == nil {
			tree.ID, err = l.write(ctx, ids, added, size)
		}
	}
	if err != nil && tree.ID != "" && ctx.Err() == nil { // the tree was made, and git's checks don't pass it
		added = slices.DeleteFunc(added, func(name string) bool {
			checked := isChecked(path.Base(name))
			if checked {
				tree.Left = append(tree.Left, Left{name, "git's checks refuse it, or a file like it"})
			}
			return checked
		})
		if err = os.Remove(l.index()); err == nil {
			tree.ID, err = l.write(ctx, ids, added, size)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		if ids[name] == "" {
			tree.Left = append(tree.Left, Left{name, "git adds no file or link of that name"})
		}
	}
	return tree, err
}

// unfit says why a file is left out of a tree.
func (l *looking) unfit(name string, info fs.FileInfo, most int64) string {
	why := UnsafePath(name)
	switch {
	case why != "" || info == nil || info.IsDir() || info.Mode()&fs.ModeSymlink != 0:
		return why
	case !info.Mode().IsRegular():
		return "it is neither a file nor a link"
	case info.Mode()&0o400 == 0:
		return "its owner may not read it"
	case info.Size() > maxTreeFile:
		return fmt.Sprintf("it has more than %d GiB", maxTreeFile>>30)
	case info.Size() > most:
		return "the files before it are too many bytes already"
	}
	return ""
}

// write runs recordScript and takes its pack. size is how many bytes the files have. ids become
// those of what was added, "" of what git passes over. With an error, an id says that only the pack
// was refused.
func (l *looking) write(ctx context.Context, ids map[string]string, added []string, size int64) (id string, err error) {
	clear(ids)
	var list strings.Builder
	for _, name := range added {
		ids[name] = ""
		list.WriteString(name + "\x00")
	}
	if err := os.WriteFile(filepath.Join(l.dir, "added"), []byte(list.String()), 0o600); err != nil {
		return "", err
	}
	c := l.jail
	c.Args = []string{"sh", "-ec", recordScript, "sh", l.folder.Base}
	c.Limits.Time = deadline.Progress
	err = l.shadow.unpack(ctx, c, size, func(out *bufio.Reader) error {
		entry, err := out.ReadString(0)
		for ; err == nil && entry != "\x00"; entry, err = out.ReadString(0) { // mode, id, stage, and the name
			head, name, _ := strings.Cut(strings.TrimSuffix(entry, "\x00"), "\t")
			if parts := strings.Fields(head); len(parts) == 3 {
				if _, is := ids[name]; is {
					ids[name] = parts[1]
				}
			}
		}
		if err != nil {
			return err
		}
		line, err := out.ReadString('\n')
		if id = strings.TrimSpace(line); err == nil && !isHex(id) {
			err = fmt.Errorf("git has made no tree, but %.80q", id)
		}
		return err
	})
	return id, err
}

// rulesFolder has the .gitignore files that were in the user's own folder before the sandbox was.
func rulesFolder(w forage.Workspace) string { return filepath.Join(w.Repository.Dir, "rules") }

// maxRules bounds a .gitignore file that is noted, in bytes.
const maxRules = 1 << 20

// NoteRules copies the .gitignore files of the user's own folder. What can't be read has none.
func NoteRules(w forage.Workspace) error {
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.Name() != ".gitignore" || !entry.Type().IsRegular():
			return nil
		}
		text, _, unread := hostile.ReadIn(root, name, maxRules)
		if unread == nil {
			to := filepath.Join(rulesFolder(w), name)
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, text, 0o600))
		}
		return err
	})
}

// Rules are where the .gitignore files are that are the user's: the commits where the work started,
// what was taken over of it, and HEAD; and the folder of NoteRules. None: all that is in the folder
// counts. "" has no such files.
func (s *Shadow) Rules(ctx context.Context, w forage.Workspace) []string {
	rules := []string{w.Base}
	if noted := rulesFolder(w); !gone(noted) {
		rules = append(rules, noted)
	}
	if commit, _, err := Taken(w); err == nil && commit != "" {
		rules = append(rules, commit)
	}
	if branchRef(s.Repository.Head) != TipRef(w) {
		rules = append(rules, "HEAD")
	}
	return rules
}

// newlyIgnored are those of what is ignored that no .gitignore file of Rules ignores. A
// folder whose own new .gitignore does it is one.
func (l *looking) newlyIgnored(ctx context.Context, ignored []string) (hidden []string, err error) {
	rules := l.folder.Rules
	isRules := func(name string) bool { return path.Base(name) == ".gitignore" }
	if len(rules) == 0 || len(ignored) == 0 {
		return nil, nil
	}
	if !slices.ContainsFunc(slices.Concat(l.changed, l.removed, ignored), isRules) {
		out, err := l.shadow.Git(ctx, Call{Args: []string{"diff-tree", "-r", "--name-only", "-z", rules[0], l.folder.Base}})
		if err == nil && !slices.ContainsFunc(slices.Collect(fields(out)), isRules) { // an error: one of them is no commit
			return nil, nil
		}
	}
	only := make(map[string]bool, len(ignored))
	for _, name := range ignored {
		only[name] = true
	}
	for _, from := range rules {
		if err := l.shadow.withoutIgnored(ctx, from, only); err != nil {
			return nil, fmt.Errorf("asking for what %s ignores: %w", from, err)
		}
	}
	around := "/" // the folder that was listed last
	for _, name := range ignored {
		if dir := path.Dir(name) + "/"; only[name] && isRules(name) && dir != "./" && !strings.HasPrefix(name, around) {
			around = dir
			only[dir] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(only)) {
		if last := len(hidden) - 1; last < 0 || !strings.HasSuffix(hidden[last], "/") || !strings.HasPrefix(name, hidden[last]) {
			hidden = append(hidden, name)
		}
	}
	return hidden, nil
}

// withoutIgnored takes out of names what the .gitignore files of a commit or a folder, or the
// user's info/exclude, ignore.
func (s *Shadow) withoutIgnored(ctx context.Context, from string, names map[string]bool) error {
	dir, err := os.MkdirTemp(s.Dir, "rules")
	if err != nil {
		return err
	}
	index, in := filepath.Join(dir, "index"), filepath.Join(dir, "files")
	if err := os.Mkdir(in, 0o700); err != nil {
		return err
	}
	magic := []string{"GIT_LITERAL_PATHSPECS=0"}
	call := Call{Args: []string{"checkout", "-q", from, "--", ":(glob)**/.gitignore"}, WorkTree: in, Index: index, Env: magic}
	if filepath.IsAbs(from) {
		in = from
	} else if _, err := s.Git(ctx, call); ctx.Err() != nil { // else it has none
		return err
	}
	var asked strings.Builder
	for name := range names {
		asked.WriteString("./" + name + "\x00") // or a colon would begin pathspec magic
	}
	// The other index has no files, nor submodules, which git asks nothing about.
	out, err := s.Git(ctx, Call{
		Args: []string{"check-ignore", "--no-index", "-z", "--stdin"}, Stdin: []byte(asked.String()), WorkTree: in, Index: index + ".none", Brief: true, Env: magic,
	})
	if err != nil && !exitedWithOne(err) { // none is ignored
		return TooLong(err)
	}
	for name := range fields(out) {
		delete(names, strings.TrimPrefix(name, "./"))
	}
	return nil
}

// CountFiles says how many files are in a folder, repositories' own left out.
func CountFiles(folder string) string {
	has, err := hostile.Measure(folder, ".git")
	switch {
	case err != nil:
		return fmt.Sprintf("%d files or more", has.Files)
	case has.Files == 1:
		return "1 file"
	}
	return fmt.Sprintf("%d files", has.Files)
}

// onlyInIndex are the files whose staged content is neither in the commit that is checked out
// inside, nor in the folder, nor among the host's objects: there is what the user had staged. git
// is asked in a jail.
func (i *importing) onlyInIndex(ctx context.Context) ([]string, error) {
	index := filepath.Join(workspace.Resolved(i.from.path), "index")
	info, err := os.Lstat(index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(forage.Errorf(forage.ErrRefused, "%s is no file", index), err)
	}
	users, err := os.Lstat(i.host.Repository.IndexOf(ctx, i.w.Path))
	if err == nil && users.Size() == info.Size() && users.ModTime().Equal(info.ModTime()) {
		return nil, nil // it is a copy of the user's: see CopyIndex
	}
	if i.unread != nil || i.at.files == "" {
		return nil, nil // see elsewhere
	}
	c, err := i.host.inside(i.private())
	if err != nil {
		return nil, err
	}
	folder := workspace.Resolved(i.w.Path)
	if err := os.WriteFile(filepath.Join(c.Dir, "HEAD"), []byte(i.at.files+"\n"), 0o600); err != nil {
		return nil, err
	}
	const script = `git diff-index --cached --quiet --ignore-submodules=all HEAD && exit
git status --porcelain=v2 -z --no-renames --untracked-files=no --ignore-submodules=all`
	c.Args, c.Dir, c.ReadOnly = []string{"sh", "-ec", script}, folder, append(c.ReadOnly, index, folder)
	c.Env = append(c.Env, "GIT_INDEX_FILE="+index, "GIT_WORK_TREE="+folder)
	var out bytes.Buffer
	c.Stdout, c.Limits.Output, c.Limits.CPU, c.Limits.Time = &out, callOutput, listCPU, deadline.Progress
	if err := c.Run(ctx); err != nil {
		return nil, fmt.Errorf("asking about the index inside: %w", err)
	}
	var names []string
	var asked strings.Builder
	for field := range fields(out.Bytes()) { // "1 XY sub mH mI mW hH hI path", as in git-status(1)
		parts := strings.SplitN(field, " ", 9)
		if len(parts) < 9 || parts[0] != "1" || strings.Contains(parts[1], ".") { // not both staged and changed since
			continue
		}
		if id := parts[7]; strings.Trim(id, "0") != "" { // else it is staged to go
			names = append(names, parts[8])
			asked.WriteString(id + "\n")
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	found, err := i.host.Git(ctx, Call{Args: []string{"cat-file", "--batch-check=%(objecttype)"}, Stdin: []byte(asked.String())})
	answers := strings.Split(string(found), "\n")
	if err != nil || len(answers) < len(names) {
		return nil, errors.Join(errors.New("looking for what is staged"), err)
	}
	var lost []string
	for n, name := range names {
		if strings.HasSuffix(answers[n], " missing") {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// fields are the parts of a list that end with a zero byte.
func fields(list []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(list) > 0 {
			field, rest, _ := bytes.Cut(list, []byte{0})
			if list = rest; !yield(string(field)) {
				return
			}
		}
	}
}

// InBoth are the names that are in both lists; nil: none.
func InBoth(some, others []string) (both []string) {
	there := make(map[string]bool, len(others))
	for _, name := range others {
		there[name] = true
	}
	for _, name := range some {
		if there[name] {
			both = append(both, name)
		}
	}
	return both
}
