package review

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/workspace/gitrepo"
)

// maxList bounds what git may say about the files that differ, in bytes: half a million of them.
const maxList = 64 << 20

// bigFile is where a file is not compared line by line any more: git holds both sides in memory.
const bigFile = "core.bigFileThreshold=16m"

// changes are the files that differ between two trees. If renames are asked for, lines are counted, too.
func (s *Session) changes(ctx context.Context, from, to string, renames bool) ([]Change, error) {
	if renames {
		return diffTrees(ctx, s.staging, from, to, "--numstat", "-M", "-l2000")
	}
	pair := [2]string{from, to}
	if known, ok := s.compared[pair]; ok {
		return slices.Clone(known), nil
	}
	changes, err := diffTrees(ctx, s.staging, from, to)
	if err == nil {
		s.compared[pair] = changes
	}
	return slices.Clone(changes), err
}

func diffTrees(ctx context.Context, git *gitrepo.Shadow, from, to string, more ...string) ([]Change, error) {
	if from == to {
		return []Change{}, nil
	}
	args := []string{"-c", bigFile, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "--no-ext-diff", "--no-textconv"}
	list, err := git.Git(ctx, gitrepo.Call{Args: append(append(args, more...), from, to), Output: maxList})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, forage.WithHint(fmt.Errorf("comparing: %w", err), "leave generated files out with .gitignore")
	}
	return parseChanges(split(list))
}

// split splits what git writes with -z.
func split(list []byte) []string {
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// byPath reads a list of changes without renames.
func byPath(list []byte) (map[string]Change, error) {
	changes, err := parseChanges(split(list))
	found := make(map[string]Change, len(changes))
	for _, c := range changes {
		found[c.Path] = c
	}
	return found, err
}

// parseChanges reads what git-diff-tree(1) writes with -z: raw lines, and then counts of lines in the same order.
func parseChanges(fields []string) ([]Change, error) {
	changes := []Change{}
	take := func() (field string) {
		if len(fields) > 0 {
			field, fields = fields[0], fields[1:]
		}
		return field
	}
	for len(fields) > 0 && strings.HasPrefix(fields[0], ":") {
		c, err := parseRaw(take())
		if err != nil {
			return nil, err
		}
		if c.Status == Renamed {
			c.OldPath = take()
		}
		c.Path = take()
		changes = append(changes, c)
	}
	for i := range changes {
		counts := strings.SplitN(take(), "\t", 3)
		if len(counts) < 3 {
			break
		}
		if counts[2] == "" { // of a rename: both names follow
			take()
			take()
		}
		changes[i].Binary = counts[0] == "-"
		changes[i].Added, _ = strconv.Atoi(counts[0]) // 0 of "-"
		changes[i].Removed, _ = strconv.Atoi(counts[1])
	}
	return changes, nil
}

var statuses = map[byte]Status{'A': Added, 'D': Deleted, 'T': TypeChanged, 'R': Renamed}

// parseRaw reads ":100644 100755 OLD NEW M".
func parseRaw(line string) (c Change, err error) {
	var status string
	if _, err := fmt.Sscanf(line, ":%o %o %s %s %s", &c.OldMode, &c.NewMode, &c.oldID, &c.newID, &status); err != nil {
		return c, fmt.Errorf("git says of a change %q", line)
	}
	if c.Status = statuses[status[0]]; c.Status == "" {
		c.Status = Modified
	}
	return c, nil
}
