package sandbox

import (
	"context"
	"fmt"
	"strings"

	"forage"
	"forage/internal/workspace"
)

// Unsaved is the work of one part of a workspace that is nowhere else.
type Unsaved struct {
	Part   string `json:"part"`
	Branch string `json:"branch,omitempty"`
	workspace.Status
}

// unsaved brings the commits of every part to its repository, and says what is left that would be lost. Parts that lose
// nothing are left out.
func (s *Service) unsaved(ctx context.Context, parts []forage.Workspace) []Unsaved {
	var all []Unsaved
	for _, w := range parts {
		status, err := s.unsavedPart(ctx, w)
		if err != nil && status.Problem == "" {
			status.Problem = err.Error()
		}
		if status.Unsaved() {
			all = append(all, Unsaved{Part: w.Name, Branch: w.Branch, Status: status})
		}
	}
	return all
}

func (s *Service) unsavedPart(ctx context.Context, w forage.Workspace) (workspace.Status, error) {
	provider, err := s.Workspaces.New(w.Mode)
	if err != nil {
		return workspace.Status{}, err
	}
	_, updated := provider.Update(ctx, w)
	status, err := provider.Status(ctx, w)
	if err == nil {
		err = updated
	}
	return status, err
}

// nothingUnsaved refuses to go on while a part has work that is nowhere else.
func (s *Service) nothingUnsaved(ctx context.Context, name string, parts []forage.Workspace) error {
	unsaved := s.unsaved(ctx, parts)
	if len(unsaved) == 0 {
		return nil
	}
	var lines []string
	for _, u := range unsaved {
		who := ""
		if len(parts) > 1 {
			who = u.Part + ": "
		}
		lines = append(lines, who+u.Text())
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the work in %s would be lost: %s", name, strings.Join(lines, "; ")),
		wayOut(name, unsaved))
}

// wayOut says what can be done about unsaved work.
func wayOut(name string, unsaved []Unsaved) string {
	branch := ""
	for _, u := range unsaved {
		if u.Branch != "" && u.CommitsCount > 0 {
			branch = u.Branch
		}
	}
	ways := "`forage-ctl diff " + name + "` shows it, `forage-ctl apply " + name + "` brings it into your repository"
	if branch != "" {
		ways += ", or merge or push the branch " + branch
	}
	return ways + "; `forage-ctl down --force " + name + "` keeps it for 30 days and removes the sandbox"
}

// named is how many names one line has.
const named = 5

// Text says in one line what would be lost. It has text from inside: escape it.
func (u Unsaved) Text() string {
	var parts []string
	if u.CommitsCount > 0 {
		var ids []string
		for _, c := range u.Commits[:min(len(u.Commits), named)] {
			ids = append(ids, fmt.Sprintf("%.10s %.60q", c.ID, c.Subject))
		}
		where := ""
		if u.Branch != "" {
			where = " on " + u.Branch + " alone"
		}
		parts = append(parts, fmt.Sprintf("%s%s (%s)", count(u.CommitsCount, "commit"), where, some(ids, u.CommitsCount)))
	}
	if u.UncommittedCount > 0 {
		parts = append(parts, fmt.Sprintf("%s with uncommitted changes (%s)", count(u.UncommittedCount, "file"), some(u.Uncommitted[:min(len(u.Uncommitted), named)], u.UncommittedCount)))
	}
	if len(u.Elsewhere) > 0 {
		parts = append(parts, fmt.Sprintf("commits that are only inside, at %s", some(u.Elsewhere[:min(len(u.Elsewhere), named)], len(u.Elsewhere))))
	}
	if u.Problem != "" {
		parts = append(parts, u.Problem)
	}
	return strings.Join(parts, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// some is a list that may be longer than what is shown of it.
func some(shown []string, all int) string {
	text := strings.Join(shown, ", ")
	if all > len(shown) {
		text += ", ..."
	}
	return text
}
