package jjrepo

import (
	"context"
	"maps"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/workspace/gitrepo"
)

// Start is the commit that a revision of jj's stands for; "" asks for the parent of the user's working copy. The
// answer is "" for the root, which git has no commit for.
func (s *Shadow) Start(ctx context.Context, revision string) (string, error) {
	if strings.HasPrefix(revision, "-") || strings.ContainsAny(revision, "\x00\n") {
		return "", forage.Errorf(forage.ErrUsage, "%q is not a revision", revision)
	}
	asked := revision
	if revision == "" {
		revision, asked = "@-", "the parent of the working copy"
	}
	dir, err := s.own()
	if err != nil {
		return "", err
	}
	out, err := s.run(ctx, dir, hostexec.Command{Argv: []string{
		"--ignore-working-copy", "log", "--no-graph", "--revisions", revision, "--template", `commit_id ++ "\n"`,
	}})
	commits := strings.Fields(out)
	if err != nil {
		return "", forage.WithHint(forage.Errorf(forage.ErrUsage, "looking for %s: %w", asked, err), "see `jj log`")
	}
	if len(commits) != 1 {
		return "", forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s stands for %d commits, and work can start from one only", asked, len(commits)),
			"name one with --branch")
	}
	return strings.Join(notRoot(commits), ""), nil
}

// Refs are what the private git directory has at first: git's, but for the branches, in whose place are jj's
// bookmarks. They are the same only where somebody has exported them. A bookmark in conflict is at no one commit.
func (s *Shadow) Refs(ctx context.Context) (gitrepo.Refs, error) {
	refs, err := s.Repository.Git.Refs(ctx, s.scratch)
	if err != nil {
		return refs, err
	}
	if refs.Values == nil {
		refs.Values = map[string]string{}
	}
	maps.DeleteFunc(refs.Values, func(name, _ string) bool {
		return strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/jj/")
	})
	out, err := s.JJ(ctx, "--ignore-working-copy", "bookmark", "list", "--template",
		`if(!remote && normal_target, name ++ "\t" ++ normal_target.commit_id() ++ "\n")`)
	for line := range strings.Lines(out) {
		if name, id, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && strings.Trim(id, "0") != "" {
			refs.Values["refs/heads/"+name] = id
		}
	}
	return refs, err
}

// shown are the heads of what the user's jj shows, without the working copy of w's own workspace there.
func (s *Shadow) shown(ctx context.Context, w forage.Workspace) ([]string, error) {
	copies, err := s.WorkingCopies(ctx)
	if err != nil {
		return nil, err
	}
	all := "all()"
	if own := copies[filepath.Base(w.Path)]; own != "" && w.Mode != forage.WorkspaceDirect {
		all += " ~ " + own
	}
	out, err := s.JJ(ctx, "--ignore-working-copy", "log", "--no-graph", "--revisions", "heads("+all+")", "--template", `commit_id ++ "\n"`)
	return notRoot(strings.Fields(out)), err
}

// tracked are the remote bookmarks that the user's bookmarks follow, as name@remote.
func (s *Shadow) tracked(ctx context.Context) ([]string, error) {
	out, err := s.JJ(ctx, "--ignore-working-copy", "bookmark", "list", "--tracked", "--template",
		`if(remote && remote != "git", name ++ "\t" ++ remote ++ "\n")`)
	var names []string
	for line := range strings.Lines(out) {
		if name, remote, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			names = append(names, exactly(name)+"@"+exactly(remote))
		}
	}
	return names, err
}
