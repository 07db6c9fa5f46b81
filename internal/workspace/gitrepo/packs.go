package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of the packs of one import.
const (
	maxPacks     = 10_000
	maxPackBytes = 32 << 30 // of one pack as it is
	packSpeed    = 4 << 20  // bytes a second, at the least
	// maxAlloc bounds one allocation of a git that reads what came from inside: a delta of a few bytes can ask for gigabytes.
	maxAlloc = 1 << 30
)

// readsHostile is the environment of a git that reads objects from inside.
var readsHostile = []string{"GIT_ALLOC_LIMIT=" + strconv.Itoa(maxAlloc)}

// pack is a pack of private metadata.
type pack struct {
	name    string
	changed time.Time
}

// packs are the packs of private metadata, newest first: what is missing is more likely in a new one. What git
// keeps beside a pack (idx, rev, bitmap, mtimes, multi-pack-index, promisor) is not looked at.
func (m *metadata) packs() ([]pack, error) {
	entries, err := m.list("objects/pack", 8*maxPacks)
	if err != nil {
		return nil, err
	}
	var found []pack
	for _, entry := range entries {
		if !entry.file || !strings.HasSuffix(entry.name, ".pack") || !strings.HasPrefix(entry.name, "pack-") {
			continue
		}
		if found = append(found, pack{"objects/pack/" + entry.name, entry.changed}); len(found) > maxPacks {
			return nil, fmt.Errorf("objects/pack: more than %d packs: %w", maxPacks, errIrregular)
		}
	}
	slices.SortFunc(found, func(a, b pack) int {
		return cmp.Or(b.changed.Compare(a.changed), cmp.Compare(a.name, b.name))
	})
	return found, nil
}

// takePack has git read a pack as a stream and make an index of its own for it, in a store of ours.
func (s *staging) takePack(ctx context.Context, p pack) error {
	file, info, err := s.from.open(p.name, maxPackBytes)
	if errors.Is(err, fs.ErrNotExist) { // repacked meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = s.shadow.Git(ctx, Call{
		Args:  []string{"index-pack", "--stdin", "--threads=1", "--max-input-size=" + strconv.FormatInt(info.Size()+1, 10)},
		Input: io.LimitReader(file, info.Size()),
		Env:   readsHostile,
		// As long as a pack of that size takes on a slow disk, and not as long as one that was made to take long.
		Timeout: time.Minute + time.Duration(info.Size()/packSpeed)*time.Second,
	})
	if err != nil {
		return fmt.Errorf("reading the pack %s: %w", p.name, err)
	}
	return nil
}
