package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"forage"
	"forage/internal/workspace/gitrepo"
)

// maxList bounds what git may say about the files that differ, in bytes: half a million of them.
const maxList = 64 << 20

// bigFile is where a file is not compared line by line any more: git holds both sides in memory.
const bigFile = "core.bigFileThreshold=16m"

// maxPaths bounds the files of a tree. A few small objects can stand for any number of them, and git holds a name for each.
const maxPaths = 2 << 20

// bounded refuses a commit with more files than git can be asked to compare.
func (s *Session) bounded(ctx context.Context, commit string) error {
	if commit == "" {
		return nil
	}
	files := &counter{left: maxPaths}
	_, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", commit}, Writer: files})
	if files.left < 0 {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the commit %.12s has more than %d files", commit, maxPaths),
			"have the agent make it anew without them; generated files are left out with .gitignore")
	}
	return err
}

// counter fails once it was given more than that many zero bytes.
type counter struct{ left int }

func (c *counter) Write(text []byte) (int, error) {
	if c.left -= bytes.Count(text, []byte{0}); c.left < 0 {
		return 0, errors.New("too many")
	}
	return len(text), nil
}

// changes are the files that differ between two trees, with counts of lines, and with renames found if that is asked for.
func (s *Session) changes(ctx context.Context, from, to string, renames bool) ([]Change, error) {
	args := []string{"-c", bigFile, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--ignore-submodules=none", "--no-ext-diff", "--no-textconv"}
	if renames {
		args = append(args, "--numstat", "-M", "-l2000")
	} else {
		args = append(args, "--no-renames")
	}
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: append(args, from, to), Output: maxList})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, forage.WithHint(fmt.Errorf("comparing: %w", err), "leave generated files out with .gitignore")
	}
	return parseChanges(strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00"))
}

// parseChanges reads what git-diff-tree(1) writes with -z: raw lines, and then counts of lines in the same order.
func parseChanges(fields []string) ([]Change, error) {
	changes := []Change{}
	next := 0
	take := func() string {
		if next++; next <= len(fields) {
			return fields[next-1]
		}
		return ""
	}
	for next < len(fields) && strings.HasPrefix(fields[next], ":") {
		c, renamed, err := parseRaw(take())
		if err != nil {
			return nil, err
		}
		if renamed {
			c.OldPath = take()
		}
		c.Path = take()
		changes = append(changes, c)
	}
	for i := range changes {
		if next >= len(fields) {
			break
		}
		counts := strings.SplitN(take(), "\t", 3)
		if len(counts) == 3 && counts[2] == "" { // of a rename: both names follow
			next += 2
		}
		changes[i].Binary = counts[0] == "-"
		if !changes[i].Binary && len(counts) == 3 {
			changes[i].Added, _ = strconv.Atoi(counts[0])
			changes[i].Removed, _ = strconv.Atoi(counts[1])
		}
	}
	return changes, nil
}

// parseRaw reads ":100644 100755 OLD NEW M".
func parseRaw(line string) (c Change, renamed bool, err error) {
	parts := strings.Fields(strings.TrimPrefix(line, ":"))
	if len(parts) != 5 {
		return c, false, fmt.Errorf("git says of a change %q", line)
	}
	oldMode, err1 := strconv.ParseUint(parts[0], 8, 32)
	newMode, err2 := strconv.ParseUint(parts[1], 8, 32)
	if err1 != nil || err2 != nil {
		return c, false, fmt.Errorf("git says of a change %q", line)
	}
	c = Change{OldMode: uint32(oldMode), NewMode: uint32(newMode), oldID: parts[2], newID: parts[3]}
	switch parts[4][0] {
	case 'A':
		c.Status = Added
	case 'D':
		c.Status = Deleted
	case 'T':
		c.Status = TypeChanged
	case 'R':
		c.Status, renamed = Renamed, true
	default:
		c.Status = Modified
	}
	return c, renamed, nil
}
