package gitrepo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
)

// Objects come from inside in two hops. git fetches them from an upload-pack in a jail to a staging of ours, where they are
// checked. Then it pushes them through receive-pack, which keeps what it gets apart until all of it is there and its own: whatever
// fails leaves nothing in the user's repository. The host parses nothing that was written inside.

// Bounds of what is fetched at once.
const (
	maxFetched    = 32 << 30 // bytes on the pipe
	fetchPatience = 10 * time.Minute
	servePatience = time.Minute
	fetchSpeed    = 4 << 20 // bytes a second, at the least
	// maxAlloc bounds one allocation of a git that reads what came from inside: a delta of a few bytes can ask for gigabytes.
	maxAlloc = 1 << 30
)

// readsHostile is the environment of a git that reads objects from inside.
var readsHostile = []string{"GIT_ALLOC_LIMIT=" + strconv.Itoa(maxAlloc)}

// fetch brings ids, with all that they need, from a private git directory to the staging. have is a commit of the repository's from
// which they are likely to go on; "" is none.
func (s *Shadow) fetch(ctx context.Context, private, have string, ids ...string) error {
	for _, id := range ids {
		if !isHex(id) || len(id) != len(emptyID(s.Repository.ObjectFormat)) {
			return forage.Errorf(forage.ErrRefused, "%.80q is no object's name here", id)
		}
	}
	serve, err := s.serve(private)
	if err != nil {
		return fmt.Errorf("fetching from inside: %w", err)
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--upload-pack=" + serve}
	if have != "" {
		args = append(args, "--negotiation-tip="+have)
	}
	_, err = s.Git(ctx, Call{Args: append(append(args, "file:///from-inside"), ids...), Env: readsHostile, Timeout: fetchPatience})
	if err == nil {
		err = s.arrived(ctx, ids)
	}
	if err != nil {
		s.sweepObjects()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "git does not take what was committed inside: %w", err),
			"look inside with git fsck; the commits stay inside")
	}
	return nil
}

// arrived says whether ids are there, and commits or tags. git's exit status doesn't: one that refuses a shallow history exits with 0.
func (s *Shadow) arrived(ctx context.Context, ids []string) error {
	out, err := s.Git(ctx, Call{
		Args: []string{"cat-file", "--batch-check=%(objecttype)"}, Stdin: []byte(strings.Join(ids, "\n") + "\n"), Env: readsHostile,
	})
	for line := range strings.Lines(string(out)) {
		if kind := strings.TrimSpace(line); kind != "commit" && kind != "tag" && err == nil {
			err = fmt.Errorf("what has arrived is no commit: %s", kind)
		}
	}
	return err
}

// sweepObjects removes what a git that failed, or was killed, has left in the staging.
func (s *Shadow) sweepObjects() {
	for _, pattern := range [...]string{"objects/pack/tmp_*", "objects/??/tmp_*", "objects/tmp_*", "objects/incoming-*"} {
		left, _ := filepath.Glob(filepath.Join(s.Dir, pattern))
		for _, path := range left {
			_ = os.RemoveAll(path)
		}
	}
}

// overObjects makes a git directory of ours over the objects of a private one, and says what git has to see for it.
func (s *Shadow) overObjects(private string) (dir string, readOnly []string, err error) {
	dir = filepath.Join(workspace.Resolved(s.Dir), "serve")
	if err := os.RemoveAll(dir); err != nil {
		return "", nil, err
	}
	objects, err := s.Repository.ObjectDirs()
	if err != nil {
		return "", nil, err
	}
	from := filepath.Join(workspace.Resolved(private), "objects")
	var alternates strings.Builder
	readOnly = []string{dir, from}
	alternates.WriteString(quoteAlternate(from) + "\n")
	for _, o := range objects {
		alternates.WriteString(quoteAlternate(o.Path) + "\n")
		readOnly = append(readOnly, o.Path)
	}
	config := "[uploadpack]\n\tallowAnySHA1InWant = true\n[pack]\n\tthreads = 1\n[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = " +
		s.Repository.ObjectFormat + "\n"
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "objects/info"), 0o700), os.Mkdir(filepath.Join(dir, "refs"), 0o700))
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config, "objects/info/alternates": alternates.String()} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	shallow := filepath.Join(s.Repository.Common, "shallow")
	if !gone(shallow) {
		err = errors.Join(err, workspace.CopyFile(shallow, filepath.Join(dir, "shallow"), maxConfig))
	}
	if err != nil {
		return "", nil, err
	}
	return dir, readOnly, nil
}

// serve is the command line of an upload-pack, in a jail, over the objects of a private git directory: with a git directory of
// ours, which has no refs and no configuration from inside.
func (s *Shadow) serve(private string) (command string, err error) {
	size, err := sizeOf(filepath.Join(private, "objects"))
	if err != nil {
		return "", err
	}
	dir, readOnly, err := s.overObjects(private)
	if err != nil {
		return "", err
	}
	jail := jailed(dir, readOnly, "upload-pack", "--strict", ".")
	jail.Limits.Time += time.Duration(size/fetchSpeed) * time.Second
	return jail.Shell()
}

// sizeOf is how many bytes are in a folder from inside. It refuses what git would wait for, such as a FIFO.
func sizeOf(folder string) (size int64, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != folder: // packed meanwhile
			return nil
		case err != nil:
			return err
		case entry.IsDir():
		case !entry.Type().IsRegular():
			return forage.Errorf(forage.ErrRefused, "%s is neither a file nor a folder: %w", path, errIrregular)
		default:
			if info, err := entry.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size, err
}

// push brings a commit of the staging to a ref of the repository, which was at old until now; "" is nowhere. errMoved: it isn't
// there any more, and nothing was changed.
func (s *Shadow) push(ctx context.Context, host *Shadow, id, ref, old string) error {
	if !validRef(ref) || !isHex(id) {
		return forage.Errorf(forage.ErrUsage, "%q is no name of a ref", ref)
	}
	_, err := s.Git(ctx, Call{
		Args: []string{"push", "--quiet", "--no-verify", "--force-with-lease=" + ref + ":" + old, "file://" + host.Dir, id + ":" + ref},
		Env:  readsHostile, Timeout: fetchPatience,
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now, look := host.Branch(ctx, ref)
	switch {
	case look != nil:
		return errors.Join(err, look)
	case now == id:
		return nil
	case now != old:
		return errors.Join(errMoved, err)
	case err == nil:
		return fmt.Errorf("git has not moved %s to %s", ref, id)
	}
	return lockedHint(err, ref)
}

// Hand hands tips of a staging, and what they need, to its repository: each object passes git's fsck, and none that they name is
// missing. No ref is left at them: see MoveBranch.
func (s *Shadow) Hand(ctx context.Context, tips []string) (err error) {
	host, err := s.Repository.Shadow(filepath.Dir(s.Dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	for _, tip := range tips {
		if host.connected(ctx, tip) == nil {
			continue // it has it
		}
		ref := "refs/forage/passing/" + rand.Text()
		if err := s.push(ctx, host, tip, ref, ""); err != nil {
			return err
		}
		if err := host.dropRecovery(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// connected fails when something is missing that a commit needs.
func (s *Shadow) connected(ctx context.Context, tip string) error {
	_, err := s.Git(ctx, Call{Args: []string{"rev-list", "--objects", "--quiet", tip, "--not", "--all"}, Env: readsHostile})
	return err
}

// Take takes commits, and all that they need, from a private git directory to a staging: a Shadow of the repository that
// writes to a store of its own, which is gone when it is closed. git's fsck has passed them.
func (r *Repository) Take(ctx context.Context, private string, tips []string) (*Shadow, error) {
	s, err := r.Shadow(filepath.Dir(private) + stagingSuffix)
	if err != nil {
		return nil, err
	}
	if err = s.stageIn(filepath.Join(s.Dir, "taken")); err == nil && len(tips) > 0 {
		err = s.fetch(ctx, private, "", tips...)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
