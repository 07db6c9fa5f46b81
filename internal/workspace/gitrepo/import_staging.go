package gitrepo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/workspace"
)

// staging is where objects from inside are brought to and looked at, before any comes near the user's
// repository: a store of ours, which finds the host's objects as well and is thrown away.
type staging struct {
	shadow  *Shadow // of the host's repository, but with an object store of its own
	from    *metadata
	all     bool // every loose object was brought: every pack is to be
	commits bool // what is handed on has to be commits, as branches are at
}

// stagingSuffix is the folder beside private metadata in which stagings are: on a disk, where a folder for scratch may be
// in memory, which a pack from inside would fill.
const stagingSuffix = ".staging"

func newStaging(r *Repository, from *metadata) (*staging, error) {
	folder := filepath.Dir(from.path) + stagingSuffix
	sweep(folder)
	shadow, err := r.Shadow(folder)
	if err != nil {
		return nil, err
	}
	objects := filepath.Join(shadow.Dir, "objects")
	err = errors.Join(
		os.Remove(objects), // the link to the host's
		os.MkdirAll(filepath.Join(objects, "info"), 0o700),
		os.WriteFile(filepath.Join(objects, "info/alternates"), []byte(quoteAlternate(filepath.Join(r.Common, "objects"))+"\n"), 0o600))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("staging for %s: %w", r.Common, err), shadow.Close())
	}
	return &staging{shadow: shadow, from: from}, nil
}

func (s *staging) close() error {
	err := s.shadow.Close()
	_ = os.Remove(filepath.Dir(s.shadow.Dir)) // unless there are others
	return err
}

// sweep removes what killed processes of ours have left. What can't be removed now is found the next time.
func sweep(folder string) {
	abandoned, _ := workspace.AbandonedScratch(folder)
	for _, left := range abandoned {
		_ = os.RemoveAll(left)
	}
}

// Take takes commits, and all that they need, from a private git directory to a staging: a Shadow of the repository that
// writes to a store of its own, which is gone when it is closed. What is taken is complete, and its digests are
// checked; git's fsck comes with Hand.
func (r *Repository) Take(ctx context.Context, privateGit string, tips []string) (_ *Shadow, err error) {
	from, err := openMetadata(privateGit)
	if err != nil {
		return nil, err
	}
	defer from.close()
	s, err := newStaging(r, from)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err = s.bringWhole(ctx, tips, nil); err != nil {
		return nil, err
	}
	return s.shadow, nil
}

// fresh are the objects that tips need and no ref of the host's repository has, in rev-list(1)'s words.
// It fails when one is missing.
func (s *Shadow) fresh(ctx context.Context, tips []string) ([]byte, error) {
	if len(tips) == 0 {
		return nil, nil
	}
	return s.Git(ctx, Call{
		Args:  []string{"rev-list", "--objects", "--stdin", "--not", "--all"},
		Stdin: []byte(strings.Join(tips, "\n") + "\n"), Env: readsHostile,
	})
}

// Hand hands tips of a staging, and what they need, to its repository: each object passes git's fsck, and
// none that they name is missing. No ref is moved: see MoveBranch.
func (s *Shadow) Hand(ctx context.Context, tips []string) error {
	host, err := s.Repository.Shadow(filepath.Dir(s.Dir))
	if err != nil {
		return err
	}
	return errors.Join(s.hand(ctx, host, tips), host.Close())
}

// bring brings what tips need: loose objects, and of the packs as many as it takes. What is in stop is known to
// be in the host's repository with all that it needs.
func (s *staging) bring(ctx context.Context, tips []string, stop map[string]bool) error {
	c := looseCopy{from: s.from, objects: filepath.Join(s.shadow.Dir, "objects"), sha256: s.shadow.Repository.ObjectFormat == "sha256"}
	absent, err := c.walk(ctx, tips, stop)
	if err != nil {
		return err
	}
	missing, err := s.missing(ctx, absent)
	if err != nil || len(missing) == 0 && !s.all {
		return err
	}
	packs, err := s.from.packs()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range packs {
		if err := s.takePack(ctx, p); err != nil {
			errs = append(errs, err) // another may have the object
			continue
		}
		if missing, err = s.missing(ctx, missing); err != nil {
			return err
		}
		if len(missing) == 0 && !s.all {
			return nil
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("the object %s is not there", missing[0]))
	}
	return errors.Join(errs...)
}

// bringAll brings, where bring was not enough, whatever there is: a pack may need what is loose.
func (s *staging) bringAll(ctx context.Context) error {
	s.all = true
	var all []string
	folders, err := s.from.list("objects", 1024)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if len(folder.name) != 2 || !isHex(strings.Repeat(folder.name, 20)) {
			continue
		}
		entries, err := s.from.list("objects/"+folder.name, maxLoose)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if id := folder.name + entry.name; isHex(id) {
				all = append(all, id)
			}
		}
	}
	c := looseCopy{from: s.from, objects: filepath.Join(s.shadow.Dir, "objects"), sha256: s.shadow.Repository.ObjectFormat == "sha256"}
	for _, id := range all {
		if _, err := c.take(ctx, id); err != nil && !errors.Is(err, errIrregular) {
			return err
		}
	}
	return s.bring(ctx, nil, nil)
}

// missing are those of ids that are neither in the staging nor in the host's repository.
func (s *staging) missing(ctx context.Context, ids []string) (missing []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := s.shadow.Git(ctx, Call{
		Args: []string{"cat-file", "--batch-check=%(objecttype)"}, Stdin: []byte(strings.Join(ids, "\n") + "\n"), Env: readsHostile,
	})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), " missing"); ok {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// unpackBelow is how many objects are made loose ones, as git's own fetch has it: a pack for each commit would make the
// user's git slow.
const unpackBelow = 100

// hand is Hand with a shadow of the host's repository at hand.
func (s *Shadow) hand(ctx context.Context, host *Shadow, tips []string) error {
	file, err := s.pack(ctx, tips)
	if err != nil || file == "" {
		return err
	}
	pack, err := os.Open(file)
	if err != nil {
		return err
	}
	defer pack.Close()
	var header [12]byte // gitformat-pack(5): PACK, version, number of objects
	if _, err := pack.ReadAt(header[:], 0); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(header[8:]) >= unpackBelow {
		_, err = host.Git(ctx, Call{Args: []string{"index-pack", "--stdin", "--threads=1", strict}, Input: pack, Env: readsHostile})
		return checked(err)
	}
	check := []string{"index-pack", "--threads=1", strict, "-o", filepath.Join(s.Dir, "checked.idx"), file}
	if _, err := s.Git(ctx, Call{Args: check, Env: readsHostile}); err != nil {
		return checked(err)
	}
	_, err = host.Git(ctx, Call{Args: []string{"unpack-objects", "-q"}, Input: pack, Env: readsHostile})
	return err
}

// strict has git check each object, but for flaws of old histories that do no harm: git-fsck(1).
const strict = "--strict=zeroPaddedFilemode=ignore,badTimezone=ignore,missingSpaceBeforeDate=ignore"

func checked(err error) error {
	if err == nil {
		return nil
	}
	return forage.WithHint(forage.Errorf(forage.ErrRefused, "what was committed inside does not pass git's checks: %w", err),
		"look inside with git fsck; the commits stay inside")
}

// pack makes one pack of what tips need and no ref of the host's repository has; "" if that is nothing.
func (s *Shadow) pack(ctx context.Context, tips []string) (string, error) {
	list, err := s.fresh(ctx, tips)
	if err != nil || len(list) == 0 {
		return "", err
	}
	out, err := s.Git(ctx, Call{
		Args:  []string{"pack-objects", "-q", "--non-empty", "--threads=1", filepath.Join(s.Dir, "ours")},
		Stdin: list, Env: readsHostile,
	})
	name := strings.TrimSpace(string(out))
	if err != nil || name == "" {
		return "", err
	}
	if strings.Contains(name, "\n") {
		return "", errors.New("git made more than one pack")
	}
	return filepath.Join(s.Dir, "ours-"+name+".pack"), nil
}

// transfer brings tips to the host's repository with all that they need.
func (s *staging) transfer(ctx context.Context, host *Shadow, tips []string, stop map[string]bool) error {
	err := s.bring(ctx, tips, stop)
	if err == nil {
		err = s.hand(ctx, host, tips)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, forage.ErrRefused) {
		return err
	}
	brought := s.bringAll(ctx)
	if ctx.Err() != nil {
		return brought
	}
	again := s.hand(ctx, host, tips)
	if again != nil && !errors.Is(again, forage.ErrRefused) {
		return errors.Join(err, brought) // which says more
	}
	return again
}

func (s *staging) hand(ctx context.Context, host *Shadow, tips []string) error {
	if s.commits {
		for _, tip := range tips {
			if kind, err := s.shadow.Line(ctx, "cat-file", "-t", tip); err != nil || kind != "commit" {
				return errors.Join(fmt.Errorf("%s is no commit", tip), err)
			}
		}
	}
	if err := s.shadow.Sized(ctx, tips...); err != nil {
		return err
	}
	return s.shadow.hand(ctx, host, tips)
}
