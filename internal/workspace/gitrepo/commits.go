package gitrepo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"forage/internal/workspace"
)

// Commits are those that revisions, as rev-list(1) takes them, are about: the newest, at most workspace.MaxListed, and how many
// there are. A whole history is only counted.
func (s *Shadow) Commits(ctx context.Context, revisions []string) (list []workspace.Commit, count int, err error) {
	args := []string{"rev-list", "--no-commit-header", "--format=%H%x09%<(300,trunc)%s", "--max-count=" + strconv.Itoa(workspace.MaxListed+1)}
	out, err := s.Git(ctx, Call{Args: append(args, revisions...)})
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.Lines(string(out)) {
		id, subject, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		list = append(list, workspace.Commit{ID: id, Subject: strings.TrimRight(subject, " ")})
	}
	if len(list) <= workspace.MaxListed {
		return list, len(list), nil
	}
	text, err := s.Line(ctx, append([]string{"rev-list", "--count"}, revisions...)...)
	if err != nil {
		return nil, 0, err
	}
	if count, err = strconv.Atoi(text); err != nil {
		return nil, 0, fmt.Errorf("counting commits: %w", err)
	}
	return list[:workspace.MaxListed], count, nil
}
