package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"forage"
)

// staging is where objects from inside are brought to and looked at, before any comes near the user's
// repository: a store of ours, which finds the host's objects as well and is thrown away.
type staging struct {
	shadow *Shadow // of the host's repository, but for what is written
	from   *metadata
	dir    string
	all    bool // every loose object of the tips was brought, and every pack
}

func newStaging(r *Repository, from *metadata, scratch string) (_ *staging, err error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(scratch, "import-")
	if err != nil {
		return nil, err
	}
	shadow, err := r.Staging(scratch, filepath.Join(dir, "objects"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &staging{shadow: shadow, from: from, dir: dir}, nil
}

func (s *staging) close() error {
	return errors.Join(s.shadow.Close(), os.RemoveAll(s.dir))
}

func (s *staging) objects() string { return filepath.Join(s.dir, "objects") }

// bring brings what tips need: loose objects, and of the packs as many as it takes. What is in stop is known to
// be in the host's repository with all that it needs.
func (s *staging) bring(ctx context.Context, tips []string, stop map[string]bool) error {
	c := looseCopy{from: s.from, objects: s.objects(), sha256: s.shadow.Repository.ObjectFormat == "sha256"}
	absent, err := c.walk(tips, stop)
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
		if len(folder.Name()) != 2 || !isHex(strings.Repeat(folder.Name(), 20)) {
			continue
		}
		entries, err := s.from.list("objects/"+folder.Name(), maxLoose)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if id := folder.Name() + entry.Name(); isHex(id) {
				all = append(all, id)
			}
		}
	}
	c := looseCopy{from: s.from, objects: s.objects(), sha256: s.shadow.Repository.ObjectFormat == "sha256"}
	for _, id := range all {
		if _, err := c.take(id); err != nil && !errors.Is(err, errIrregular) {
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

// hand hands what tips need to the host's repository, checked: git's fsck looks at each object, and nothing
// that one names is missing.
func (s *staging) hand(ctx context.Context, host *Shadow, tips []string) error {
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
	check := []string{"index-pack", "--threads=1", strict, "-o", filepath.Join(s.dir, "checked.idx"), file}
	if _, err := s.shadow.Git(ctx, Call{Args: check, Env: readsHostile}); err != nil {
		return checked(err)
	}
	_, err = host.Git(ctx, Call{Args: []string{"unpack-objects", "-q"}, Input: io.Reader(pack), Env: readsHostile})
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
func (s *staging) pack(ctx context.Context, tips []string) (string, error) {
	var list bytes.Buffer
	list.WriteString("--not\n--all\n--not\n")
	for _, tip := range tips {
		list.WriteString(tip + "\n")
	}
	out, err := s.shadow.Git(ctx, Call{
		Args:  []string{"pack-objects", "-q", "--revs", "--non-empty", "--threads=1", filepath.Join(s.dir, "ours")},
		Stdin: list.Bytes(), Env: readsHostile,
	})
	name := strings.TrimSpace(string(out))
	if err != nil || name == "" {
		return "", err
	}
	if strings.Contains(name, "\n") {
		return "", errors.New("git made more than one pack")
	}
	return filepath.Join(s.dir, "ours-"+name+".pack"), nil
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
	if again := s.bringAll(ctx); again != nil && ctx.Err() != nil {
		return again
	}
	return s.hand(ctx, host, tips)
}
