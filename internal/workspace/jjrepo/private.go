package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Names below a repository's private folder.
const (
	gitFolder = "git"
	jjFolder  = "jj"
)

// PlanPrivate decides how a private jj repository is laid out. It makes nothing. Its git directory
// is beside the workspace: as with any second workspace of jj's, git knows nothing of it.
func (r *Repository) PlanPrivate(l gitrepo.Layout) (*forage.Repository, error) {
	l.Pointer = true
	planned, err := r.Git.PlanPrivate(l, "")
	if err != nil {
		return nil, err
	}
	planned.Kind = forage.RepositoryJJ
	planned.Mounts = slices.DeleteFunc(planned.Mounts, func(m forage.Mount) bool { return m.Target == path.Join(l.Target, ".git") })
	planned.Mounts = append(planned.Mounts, MountPrivate(l))
	return planned, nil
}

// MountPrivate shows a private .jj folder.
func MountPrivate(l gitrepo.Layout) forage.Mount {
	return forage.Mount{Source: filepath.Join(l.Dir, jjFolder), Target: path.Join(l.Target, ".jj"), Writable: !l.ReadOnly}
}

// Has says whether private metadata has a .jj folder.
func Has(r *forage.Repository) bool {
	return r != nil && slices.ContainsFunc(r.Mounts, func(m forage.Mount) bool { return m.Source == filepath.Join(r.Dir, jjFolder) })
}

// alone says whether jj alone has the repository of w.
func alone(w forage.Workspace) bool { return w.Repository.Kind == forage.RepositoryJJ }

// CreatePrivate makes the private jj repository of w, and the git directory below it if jj alone
// has the user's: else that is there already. The bookmarks are the branches of that directory, the
// commits have the change ids that they have on the host, the operation log begins here.
func (s *Shadow) CreatePrivate(ctx context.Context, w forage.Workspace) (err error) {
	if alone(w) {
		refs, err := s.Refs(ctx)
		if err != nil {
			return err
		}
		private := gitrepo.Private{Repository: *w.Repository, Branch: w.Branch, Remotes: true, Refs: refs, Scratch: s.scratch}
		if err := gitrepo.CreatePrivate(ctx, s.Repository.Git, private); err != nil {
			return err
		}
	}
	work := filepath.Join(w.Repository.Dir, "new") // beside its place
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	git := filepath.Join(w.Repository.Dir, gitFolder)
	for _, change := range []struct{ file, text string }{
		{"objects/info/alternates", filepath.Join(w.Repository.Store, "objects") + "\n"}, // as the host calls them
		{"HEAD", "ref: refs/heads/forage-none\n"},                                        // jj would check it out
	} {
		file := filepath.Join(git, change.file)
		before, failed := os.ReadFile(file)
		if failed == nil {
			failed = write(file, change.text)
		}
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, write(file, string(before))) }()
	}
	if err := s.initPrivate(ctx, work, w); err != nil {
		return fmt.Errorf("making the private jj repository: %w", err)
	}
	made := filepath.Join(work, ".jj")
	err = errors.Join(
		write(filepath.Join(made, "repo/store/git_target"), target(*w.Repository)),
		write(filepath.Join(made, ".gitignore"), "/*\n"), // git's status shows nothing of it, as jj has it
		// The tree of the user's working copy is that of the base: jj need not read the files
		// again.
		workspace.CopyFile(filepath.Join(w.Path, ".jj/working_copy/tree_state"), filepath.Join(made, "working_copy/tree_state"), maxTable),
		os.CopyFS(filepath.Join(w.Repository.Dir, "index"), os.DirFS(filepath.Join(made, "repo/index")))) // see ask
	if err != nil {
		return err
	}
	return os.Rename(made, filepath.Join(w.Repository.Dir, jjFolder))
}

// baseRef leads to the commit that the work starts from, while the repository is made: jj takes in
// what refs lead to, and a commit of the user's needs no bookmark.
const baseRef = "refs/heads/forage-base"

// initPrivate has jj make the repository in work, where no file is checked out.
func (s *Shadow) initPrivate(ctx context.Context, work string, w forage.Workspace) error {
	jj := func(args ...string) error {
		_, err := s.run(ctx, work, hostexec.Command{Argv: args})
		return err
	}
	git := filepath.Join(w.Repository.Dir, gitFolder)
	if w.Base != "" {
		if err := write(filepath.Join(git, baseRef), w.Base+"\n"); err != nil {
			return err
		}
	}
	if err := jj("git", "init", "--git-repo="+git, "."); err != nil {
		return err
	}
	if err := s.copyExtra(filepath.Join(work, ".jj/repo")); err != nil {
		return err
	}
	if w.Mode != forage.WorkspaceDirect {
		if err := jj("workspace", "rename", filepath.Base(w.Path)); err != nil {
			return err
		}
	}
	if tracked, err := s.tracked(ctx); err != nil {
		return err
	} else if len(tracked) > 0 { // the remotes that the bookmarks follow on the host
		if err := jj(append([]string{"bookmark", "track", "--"}, tracked...)...); err != nil {
			return err
		}
	}
	if err := jj("sparse", "set", "--clear"); err != nil {
		return err
	}
	if w.Base != "" {
		err := errors.Join(jj("new", w.Base), os.Remove(filepath.Join(git, baseRef)))
		if err = errors.Join(err, jj("git", "import")); err != nil {
			return err
		}
	}
	// What led here is of no use inside, and could only be undone by mistake.
	return errors.Join(jj("operation", "abandon", "..@-"),
		jj("log", "--revisions", "@"), // which makes the index
		s.moveSettings(filepath.Join(work, ".jj/repo")))
}

// moveSettings brings the settings of a repository that jj has just made, such as what trunk() is,
// to the place in it that every jj reads. Newer ones keep them in a folder of the user's, under a
// name that is in the repository.
func (s *Shadow) moveSettings(repo string) error {
	kept, err := filepath.Glob(filepath.Join(s.Dir, "jj/repos/*/config.toml"))
	if err != nil || len(kept) != 1 {
		return err
	}
	return errors.Join(os.Rename(kept[0], filepath.Join(repo, "config.toml")), os.Remove(filepath.Join(repo, "config-id")))
}

// copyExtra copies what jj keeps beside git's objects: change ids of commits that say none
// themselves. What the new repository had made up for them is dropped, and so is its index, which
// jj makes anew.
func (s *Shadow) copyExtra(repo string) error {
	extra, index := filepath.Join(repo, "store/extra"), filepath.Join(repo, "index")
	if err := errors.Join(os.RemoveAll(extra), os.RemoveAll(index), emptyIndex(index)); err != nil {
		return err
	}
	// Heads first: jj writes a table before it is one, and removes no table. They are empty files.
	from := filepath.Join(s.Repository.Dir, "store/extra")
	heads, err := os.ReadDir(filepath.Join(from, "heads"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(extra, "heads"), 0o700)
	}
	for _, head := range heads {
		err = errors.Join(err, write(filepath.Join(extra, "heads", head.Name()), ""))
	}
	tables, listed := os.ReadDir(from)
	err = errors.Join(err, listed)
	for _, table := range tables {
		if !table.Type().IsRegular() {
			continue
		}
		copied := workspace.CopyFile(filepath.Join(from, table.Name()), filepath.Join(extra, table.Name()), maxTable)
		if !errors.Is(copied, fs.ErrNotExist) { // jj's lock, which has gone
			err = errors.Join(err, copied)
		}
	}
	return err
}

// emptyIndex makes an index that jj fills.
func emptyIndex(dir string) error {
	for _, name := range []string{"segments", "op_links", "changed_paths"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	return write(filepath.Join(dir, "type"), "default")
}

// target is what .jj/repo/store/git_target says: where the private git directory is shown.
func target(r forage.Repository) string {
	at := slices.IndexFunc(r.Mounts, func(m forage.Mount) bool { return m.Source == filepath.Join(r.Dir, gitFolder) })
	if shown := r.Mounts[at].Target; path.Base(shown) != ".git" {
		return shown
	}
	return "../../../.git" // colocated
}
