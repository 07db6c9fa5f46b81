package jjrepo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"forage"
	"forage/internal/hostexec"
)

// commitsOf are the commits that a revision stands for, in hex. jj's own revision language is understood.
func (s *Shadow) commitsOf(ctx context.Context, revision string) ([]string, error) {
	out, err := s.JJ(ctx, "--ignore-working-copy", "log", "--no-graph", "--revisions", revision, "--template", `commit_id ++ "\n"`)
	return strings.Fields(out), err
}

// View is what the host's own repository is at. Operations that went on side by side are merged by jj first.
func (s *Shadow) View(ctx context.Context) (View, error) {
	// The shadow's .jj has links out of it: the repository's own is read, from a root above.
	root, err := os.OpenRoot(filepath.Dir(s.Repository.Dir))
	if err != nil {
		return View{}, err
	}
	defer root.Close()
	operations, err := operationHeads(root)
	if err != nil {
		return View{}, err
	}
	if len(operations) > 1 {
		if err := s.Change(ctx, "operation", "log", "--limit=1", "--no-graph", "--template", "id"); err != nil {
			return View{}, err
		}
		if operations, err = operationHeads(root); err != nil {
			return View{}, err
		}
	}
	view, _, err := readOperation(root, operations[0])
	view.Operations, view.Workspace = operations, s.Repository.Name
	return view, err
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
		write(filepath.Join(folder, ".jj/.gitignore"), "/*\n"),     // nor does git see it: as jj has it where both are used
		s.notePath(ctx, name, folder))
}

// ForgetWorkspace makes the repository forget a workspace, and its commit if there is nothing in it. One that it doesn't
// have is as good as forgotten.
func (s *Shadow) ForgetWorkspace(ctx context.Context, name string) error {
	view, err := s.View(ctx)
	if err != nil {
		return err
	}
	if view.WorkingCopies[name] == "" {
		return s.notePath(ctx, name, "")
	}
	return errors.Join(s.Change(ctx, "workspace", "forget", "--", name), s.notePath(ctx, name, ""))
}

// exactly is a name as jj's command line and revisions take it: quoted, it is never a pattern.
func exactly(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// notePath has the repository's workspace store (simple_workspace_store.proto) say where a
// workspace is, as `jj workspace root` wants to know; "" takes it out. A repository without such a store is left so.
func (s *Shadow) notePath(ctx context.Context, name, folder string) error {
	store := filepath.Join(s.Repository.Dir, "workspace_store")
	if _, err := os.Stat(filepath.Join(store, "index")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := lock(ctx, filepath.Join(store, "index.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	old, err := readWhole(filepath.Join(store, "index"), maxView)
	if err != nil {
		return err
	}
	var updated []byte
	err = fields(old, func(f field) error {
		if f.number == 1 && workspaceName(f.data) != name {
			updated = appendBytes(updated, 1, f.data)
		}
		return nil
	})
	if err != nil {
		return forage.Errorf(forage.ErrUnsupported, "reading %s: %w", store, err)
	}
	if folder != "" {
		updated = appendBytes(updated, 1, appendBytes(appendBytes(nil, 1, []byte(name)), 2, []byte(folder)))
	}
	return renameio.WriteFile(filepath.Join(store, "index"), updated, 0o600, renameio.WithTempDir(store))
}

func workspaceName(message []byte) string {
	var name string
	_ = fields(message, func(f field) error { // what can't be read has no name, and is kept
		if f.number == 1 {
			name = string(f.data)
		}
		return nil
	})
	return name
}
