package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"forage"
	"forage/internal/hostexec"
)

// Bounds of the files and folders that a commit from inside changes. A few objects are enough for a tree that names billions of
// files: each git on the host that makes an index of one, or shows what a commit changes, would take all memory for it.
const (
	maxTreeFiles  = 4_000_000
	maxTreePath   = 4096    // bytes of one: PATH_MAX
	maxListMemory = 2 << 30 // what git may have for the list of one commit's
	listCPU       = 10 * time.Second
)

// errTooMany says that a tree is beyond the bounds.
var errTooMany = errors.New("too many files")

// Sized refuses tips when they, or a commit that comes with them and is on no ref of the repository yet, has more files than
// any working folder has.
func (s *Shadow) Sized(ctx context.Context, tips ...string) error {
	if len(tips) == 0 {
		return nil
	}
	paths := &pathCounter{}
	_, err := s.Git(ctx, Call{
		Args:  []string{"log", "--root", "-m", "-t", "--no-renames", "--name-only", "--format=%x00", "--stdin", "--not", "--all"},
		Stdin: []byte(strings.Join(tips, "\n") + "\n"), Env: readsHostile, Memory: maxListMemory, CPU: listCPU, Timeout: lookTimeout, Writer: paths,
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	if paths.over || strings.Contains(err.Error(), "emory") || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, hostexec.ErrCPU) {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a commit from inside has %w: more than %d, or longer paths than a file can have (%w)", errTooMany, maxTreeFiles, err),
			"leave that commit out (git rebase -i); until then the commits stay inside")
	}
	return err
}

// pathCounter reads lines with paths, and a zero byte before those of each commit.
type pathCounter struct {
	lines, length int
	over          bool
}

func (p *pathCounter) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
		at := bytes.IndexAny(rest, "\n\x00")
		if at < 0 {
			p.length += len(rest)
			rest = nil
		} else {
			p.length += at
		}
		if p.length > maxTreePath || p.lines > maxTreeFiles {
			p.over = true
			return 0, errTooMany
		}
		if at >= 0 {
			p.length, p.lines = 0, p.lines+1
			if rest[at] == 0 {
				p.lines = 0
			}
			rest = rest[at+1:]
		}
	}
	return len(text), nil
}
