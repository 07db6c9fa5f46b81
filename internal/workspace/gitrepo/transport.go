package gitrepo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostile"
	"forage/internal/jail"
	"forage/internal/workspace"
)

// Objects come from inside as a pack, which a git in a jail makes. A git of the host's checks it
// and writes what is in it to a quarantine: a folder of ours that is a store of objects beside the
// repository's. What has passed all checks is admitted: it is moved to the repository. What fails
// leaves nothing there. Git's receive-pack works the same way.

// Bounds of what is brought at once.
const (
	maxFetched = 32 << 30 // bytes of a pack
	fetchSpeed = 4 << 20  // bytes a second, at the least
	// What a git may take of the processor that writes what came from inside: deltas of a few bytes
	// can make gigabytes. Each second more is for fetchSpeed bytes.
	storeCPU  = 20 * time.Second
	objectCPU = 100 * time.Microsecond // for each object of a pack
	// maxAlloc bounds one allocation of a git that reads what came from inside: a delta of a few
	// bytes can ask for gigabytes.
	maxAlloc = 1 << 30
	// looseLimit is how many objects become loose ones: fetch.unpackLimit of git-config(1). More
	// stay a pack.
	looseLimit = 100
)

// readsHostile is the environment of a git that reads objects from inside.
var readsHostile = []string{"GIT_ALLOC_LIMIT=" + strconv.Itoa(maxAlloc)}

// checks are git-fsck(1)'s, without flaws of old histories that do no harm.
const checks = "--strict=zeroPaddedFilemode=ignore,badTimezone=ignore,missingSpaceBeforeDate=ignore"

// jailed is a git in a jail that sees no more than these paths, with a git directory of ours. No
// link is followed to one of them: one may appear inside at any moment, and the jail would see what
// it leads to.
func (s *Shadow) jailed(dir string, readOnly []string, args ...string) jail.Command {
	return jail.Command{
		Args: append([]string{"git"}, args...), Dir: dir, ReadOnly: readOnly,
		Env:    append(environment(), "GIT_DIR="+dir, readsHostile[0]),
		Limits: jail.Limits{CPU: 10 * time.Minute, Time: deadline.Answer, Output: maxFetched},
	}
}

// BareOver makes a git directory of ours at dir for a jail, over these folders of objects and the
// repository's. It has no refs. The answer is what the jail has to see for it.
func (s *Shadow) BareOver(dir, head, config string, objects ...string) (readOnly []string, err error) {
	dirs, err := s.Repository.ObjectDirs()
	if err != nil {
		return nil, err
	}
	for _, o := range dirs {
		objects = append(objects[:len(objects):len(objects)], o.Path)
	}
	err = gitDir{
		head: head, config: s.Repository.shadowConfig() + "[pack]\n\tthreads = 1\n" + config, borrows: objects,
		copies: map[string]string{"shallow": filepath.Join(s.Repository.Common, "shallow"), "info/exclude": filepath.Join(s.Dir, "info/exclude")},
	}.make(dir)
	return append(objects, dir), err
}

// inside is a git in a jail over the objects of a private git directory, in a git directory of
// ours: without refs and configuration from inside. It is made once.
func (s *Shadow) inside(private string) (c jail.Command, err error) {
	dir := filepath.Join(workspace.Resolved(s.Dir), "inside")
	has, err := hostile.Measure(filepath.Join(private, "objects"), "")
	if err == nil && has.Odd != "" { // such as a FIFO, which git would wait for
		err = forage.Errorf(forage.ErrRefused, "%s among the objects is neither a file nor a folder: %w", has.Odd, errIrregular)
	}
	if err != nil {
		return c, err
	}
	readOnly, err := s.BareOver(dir, "ref: refs/heads/none", "", append(slices.Clone(s.objects), filepath.Join(workspace.Resolved(private), "objects"))...)
	c = s.jailed(dir, readOnly)
	c.Limits.Time += time.Duration(has.Bytes/fetchSpeed) * time.Second
	return c, err
}

// asks asks the objects inside what git answers with its exit status. The answer may be a lie.
func (s *Shadow) asks(ctx context.Context, private string, question ...string) (bool, error) {
	c, err := s.inside(private)
	if err != nil {
		return false, err
	}
	c.Args = append(c.Args, question...)
	if err = c.Run(ctx); exitedWithOne(err) {
		return false, nil
	}
	return err == nil, err
}

// unpack runs a jail that writes a pack, and has git write what is in it to the shadow's objects.
// size is about how many bytes the pack is made of. head reads what comes before.
func (s *Shadow) unpack(ctx context.Context, c jail.Command, size int64, head func(*bufio.Reader) error) error {
	return s.receive(ctx, size, head, func(to io.Writer) error {
		c.Stdout = to
		return c.Run(ctx)
	})
}

// receive is unpack for what send writes.
func (s *Shadow) receive(ctx context.Context, size int64, head func(*bufio.Reader) error, send func(to io.Writer) error) (err error) {
	from, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := send(to)
		sent <- err
		to.CloseWithError(err)
	}()
	pack := bufio.NewReader(from)
	if head != nil {
		err = head(pack)
	}
	if err == nil {
		err = s.store(ctx, pack, size, head == nil)
	}
	from.CloseWithError(err)
	if ended := <-sent; ended != nil && (err == nil || !errors.Is(ended, io.ErrClosedPipe)) {
		return ended
	}
	return err
}

// store writes what is in a pack to the shadow's objects, if it passes git's checks. Loose objects
// of what does not pass may stay: without loose there are none.
func (s *Shadow) store(ctx context.Context, pack *bufio.Reader, size int64, loose bool) error {
	head, err := pack.Peek(12) // gitformat-pack(5): the last four bytes are how many objects there are
	if err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	args, count := []string{"unpack-objects", "-q", checks}, binary.BigEndian.Uint32(head[8:])
	if count > looseLimit || count > 0 && !loose {
		args = []string{"index-pack", "--stdin", "--fix-thin", "--threads=1", checks}
	}
	cpu := storeCPU + time.Duration(size/fetchSpeed)*time.Second + time.Duration(count)*objectCPU
	_, err = s.Git(ctx, Call{Args: args, Input: pack, Env: readsHostile, Timeout: deadline.Progress, CPU: cpu})
	return err
}

// fetch brings ids, with all that they need, from a private git directory to the shadow's objects:
// a quarantine. What has come passes git's checks, and nothing is missing that it needs.
func (s *Shadow) fetch(ctx context.Context, private string, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	refs, err := refsIn(s.Repository.Common)
	if err != nil {
		return err
	}
	var wanted strings.Builder
	for _, id := range ids {
		if !isHex(id) || len(id) != len(emptyID(s.Repository.ObjectFormat)) {
			return forage.Errorf(forage.ErrRefused, "%.80q is no object's name here", id)
		}
		wanted.WriteString(id + "\n")
	}
	wanted.WriteString(excluded(refs.known()))
	c, err := s.inside(private)
	size := int64((c.Limits.Time-deadline.Answer)/time.Second) * fetchSpeed // see inside
	if err == nil {
		c.Args = append(c.Args, "pack-objects", "-q", "--revs", "--thin", "--stdout", "--delta-base-offset")
		c.Stdin = strings.NewReader(wanted.String())
		err = s.unpack(ctx, c, size, nil)
	}
	if err == nil {
		err = s.connected(ctx, ids...)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "git does not take what was committed inside: %w", err),
			"look inside with git fsck; the commits stay inside")
	}
	return nil
}

// known is what the repository has for sure: what is on branches, was shown inside, or jj keeps.
func (refs Refs) known() (ids []string) {
	for name, id := range refs.Values {
		if hasPrefix(name, []string{"refs/heads/", "refs/remotes/", "refs/forage/", "refs/jj/keep/"}) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// excluded has rev-list(1) leave out what commits lead to.
func excluded(ids []string) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString("^" + id + "\n")
	}
	return b.String()
}

// commits are those of ids that are commits here.
func (s *Shadow) commits(ctx context.Context, ids []string) (there []string, err error) {
	out, err := s.Git(ctx, Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, Stdin: []byte(strings.Join(ids, "\n") + "\n")})
	for line := range strings.Lines(string(out)) {
		if id, is := strings.CutSuffix(line, " commit\n"); is {
			there = append(there, id)
		}
	}
	return there, err
}

// connected fails when something is missing that tips need, or one of them is neither a commit nor
// a tag of one.
func (s *Shadow) connected(ctx context.Context, tips ...string) error {
	var asked strings.Builder
	for _, tip := range tips {
		asked.WriteString(tip + "\n" + tip + "^0\n")
	}
	_, err := s.Git(ctx, Call{
		Args: []string{"rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"}, Stdin: []byte(asked.String()),
		Env: readsHostile, Memory: maxListMemory, Timeout: deadline.Progress,
	})
	return err
}

// Staging is a Shadow that writes objects to a folder of ours, which is made and stays, and finds
// the repository's and those of the other folders as well. The user's git and other sandboxes don't
// see what is written there, until Bring.
func (r *Repository) Staging(scratch, objects string, others ...string) (*Shadow, error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return nil, err
	}
	for _, dir := range append([]string{objects}, others...) {
		s.objects = append(s.objects, workspace.Resolved(dir))
	}
	link, alternate := filepath.Join(s.Dir, "objects"), filepath.Join(objects, "info/alternates")
	lines := strings.Join(append([]string{filepath.Join(r.Common, "objects")}, others...), "\n") + "\n"
	err = errors.Join(
		os.MkdirAll(filepath.Dir(alternate), 0o700),
		// In one step: another call may be reading it.
		renameio.WriteFile(alternate, []byte(lines), 0o600, renameio.WithTempDir(filepath.Dir(alternate))),
		os.Remove(link),
		os.Symlink(objects, link))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("staging for %s: %w", r.Common, err), s.Close())
	}
	return s, nil
}

// quarantineKind is what quarantines are called: by such a name, git's gc knows what a crash left.
const quarantineKind = "tmp_objdir-incoming-forage"

// quarantine is a Staging in the repository's folder of objects, where they can be moved from.
// Close removes it. Those of processes that were killed go first.
func (r *Repository) quarantine(scratch string) (*Shadow, error) {
	dir := filepath.Join(r.Common, "objects")
	left, _ := workspace.AbandonedScratch(dir)
	for _, path := range left {
		if strings.HasPrefix(filepath.Base(path), quarantineKind+"-") {
			_ = hostile.RemoveAll(path)
		}
	}
	objects, err := workspace.MakeScratch(dir, quarantineKind)
	if err != nil {
		return nil, err
	}
	s, err := r.Staging(scratch, objects)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(objects))
	}
	s.passing = objects
	return s, nil
}

// admit moves what is in a quarantine to the repository: packs before their indexes, by which git
// finds them.
func (s *Shadow) admit() error {
	rank := func(name string) int {
		return slices.Index([]string{".keep", ".pack", ".rev", ".idx"}, filepath.Ext(name))
	}
	var files []string
	err := filepath.WalkDir(s.passing, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.passing, path)
		if err != nil || entry.IsDir() {
			return err
		}
		if dir := filepath.Dir(name); dir == "pack" && strings.HasPrefix(filepath.Base(name), "pack-") || len(dir) == 2 && isHex(dir+filepath.Base(name)) {
			files = append(files, name)
		}
		return nil
	})
	slices.SortStableFunc(files, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range files {
		to := filepath.Join(s.Repository.Common, "objects", name)
		if made := os.Mkdir(filepath.Dir(to), 0o777); made == nil { // of a folder that is shared, git has made it so
			if like, err := os.Stat(filepath.Dir(filepath.Join(s.passing, name))); err == nil {
				_ = os.Chmod(filepath.Dir(to), like.Mode())
			}
		}
		if err == nil {
			err = placeObject(filepath.Join(s.passing, name), to)
		}
	}
	if err != nil {
		return fmt.Errorf("bringing objects to %s: %w", s.Repository.Common, err)
	}
	return nil
}

// placeObject gives a file its place among the user's objects. One that is there stays: nothing from
// inside comes in its stead, whatever its bytes are.
func placeObject(from, to string) error {
	err := os.Link(from, to)
	if err == nil || !gone(to) {
		return nil
	}
	return os.Rename(from, to) // the file system has no hard links
}

// Bring copies what a commit needs to another repository, wherever that is. have are commits that
// it may have. No ref moves.
func (s *Shadow) Bring(ctx context.Context, to *Repository, commit string, have ...string) (err error) {
	q, err := to.quarantine(filepath.Dir(s.Dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	refs, err := refsIn(to.Common)
	for _, at := range []*Shadow{q, s} { // what both have need not be sent
		if err == nil {
			have, err = at.commits(ctx, append(have, refs.known()...))
			refs = Refs{}
		}
	}
	if err != nil {
		return err
	}
	wanted := commit + "\n" + excluded(have)
	err = q.receive(ctx, maxFetched, nil, func(to io.Writer) error {
		_, err := s.Git(ctx, Call{
			Args: []string{"pack-objects", "-q", "--revs", "--thin", "--stdout", "--delta-base-offset"}, Stdin: []byte(wanted), Writer: to, Timeout: deadline.Progress,
		})
		return err
	})
	if err == nil {
		err = q.connected(ctx, commit)
	}
	if err != nil {
		return fmt.Errorf("bringing objects to %s: %w", to.Common, err)
	}
	return q.admit()
}
