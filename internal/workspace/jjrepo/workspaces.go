package jjrepo

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/workspace/gitrepo"
)

// WorkingCopies are the commits that the workspaces of the user's repository are at, by their
// names.
func (s *Shadow) WorkingCopies(ctx context.Context) (map[string]string, error) {
	return s.list(ctx, `name ++ "\t" ++ target.commit_id() ++ "\n"`, "workspace", "list")
}

// list has jj list names and what belongs to each: a template with a tab between.
func (s *Shadow) list(ctx context.Context, template string, args ...string) (map[string]string, error) {
	out, err := s.JJ(ctx, append(args, "--ignore-working-copy", "--template", template)...)
	all := map[string]string{}
	for line := range strings.Lines(out) {
		name, of, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if plain, err := strconv.Unquote(name); err == nil { // jj quotes what would not be a symbol otherwise
			name = plain
		}
		all[name] = of
	}
	return all, err
}

// AddWorkspace makes a workspace of the repository in folder, which is made too, on top of a
// commit, with all files in it.
func (s *Shadow) AddWorkspace(ctx context.Context, name, folder, parent string) error {
	if err := s.change(ctx, "workspace", "add", "--sparse-patterns=empty", "--name="+name, "--revision="+parent, "--", folder); err != nil {
		return err
	}
	// The files take long, and change nothing of the repository: it can be killed in the midst of
	// them.
	if _, err := s.run(ctx, folder, hostexec.Command{Argv: []string{"sparse", "reset"}}); err != nil {
		return err
	}
	return errors.Join(
		write(filepath.Join(folder, ".jj/repo"), s.Repository.Dir), // jj wrote the shadow's path there
		write(filepath.Join(folder, ".jj/.gitignore"), "/*\n"))     // nor does git see it: as jj has it where both are used
}

// ForgetWorkspace makes the repository forget the workspace in folder, and its commit if there is
// nothing in it. One that it doesn't have is as good as forgotten.
func (s *Shadow) ForgetWorkspace(ctx context.Context, name string) error {
	all, err := s.WorkingCopies(ctx)
	if err == nil && all[name] != "" {
		err = s.Change(ctx, "workspace", "forget", "--", name)
	}
	return err
}

// exactly is a name as jj's command line and revisions take it: quoted, it is never a pattern.
func exactly(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// Start is the commit that a revision of jj's stands for; "" asks for the parent of the user's
// working copy. The answer is "" for the root, which git has no commit for.
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

// Refs are what the private git directory has at first: git's, but for the branches, in whose place
// are jj's bookmarks. They are the same only where somebody has exported them. A bookmark in
// conflict is at no one commit.
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
	bookmarks, err := s.list(ctx, `if(!remote && normal_target, name ++ "\t" ++ normal_target.commit_id() ++ "\n")`, "bookmark", "list")
	for name, id := range bookmarks {
		if strings.Trim(id, "0") != "" {
			refs.Values["refs/heads/"+name] = id
		}
	}
	return refs, err
}

// shown are the heads of what the user's jj shows, without the working copy of w's own workspace
// there.
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
	remotes, err := s.list(ctx, `if(remote && remote != "git", name ++ "@" ++ remote ++ "\t" ++ name ++ "\n")`, "bookmark", "list", "--tracked")
	var names []string
	for both, name := range remotes {
		names = append(names, exactly(name)+"@"+exactly(strings.TrimPrefix(both, name+"@")))
	}
	return names, err
}
