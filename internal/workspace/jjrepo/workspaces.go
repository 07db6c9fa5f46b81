package jjrepo

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"forage/internal/hostexec"
)

// WorkingCopies are the commits that the workspaces of the user's repository are at, by their names.
func (s *Shadow) WorkingCopies(ctx context.Context) (map[string]string, error) {
	out, err := s.JJ(ctx, "--ignore-working-copy", "workspace", "list", "--template", `name ++ "\t" ++ target.commit_id() ++ "\n"`)
	all := map[string]string{}
	for line := range strings.Lines(out) {
		if name, id, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			all[unquoted(name)] = id
		}
	}
	return all, err
}

// unquoted is a name as jj has it: where it would not be a symbol otherwise, jj quotes it.
func unquoted(name string) string {
	if plain, err := strconv.Unquote(name); err == nil {
		return plain
	}
	return name
}

// AddWorkspace makes a workspace of the repository in folder, which is made too, on top of the commits in
// parents, with all files in it.
func (s *Shadow) AddWorkspace(ctx context.Context, name, folder string, parents []string) error {
	args := []string{"workspace", "add", "--sparse-patterns=empty", "--name=" + name}
	for _, parent := range parents {
		args = append(args, "--revision="+parent)
	}
	if err := s.change(ctx, append(args, "--", folder)...); err != nil {
		return err
	}
	// The files take long, and change nothing of the repository: it can be killed in the midst of them.
	if _, err := s.run(ctx, folder, hostexec.Command{Argv: []string{"sparse", "reset"}}); err != nil {
		return err
	}
	return errors.Join(
		write(filepath.Join(folder, ".jj/repo"), s.Repository.Dir), // jj wrote the shadow's path there
		write(filepath.Join(folder, ".jj/.gitignore"), "/*\n"))     // nor does git see it: as jj has it where both are used
}

// ForgetWorkspace makes the repository forget the workspace in folder, and its commit if there is nothing in it. One that it doesn't
// have is as good as forgotten.
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
