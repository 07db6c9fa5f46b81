package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Shadow is a workspace of our own over a repository, for as long as it is not closed: jj
// finds in it the operations and the index of the repository, by links, and a git directory
// that is a gitrepo.Shadow; no configuration but ours.
type Shadow struct {
	Repository *Repository
	Git        *gitrepo.Shadow
	Dir        string // has .jj and, but for that, no file
	scratch    string
}

// shared are what a shadow has of .jj/repo, by links. Not config.toml, config-id and the like, nor
// workspace_store, in which jj would note paths as seen from the shadow.
var shared = [...]string{"op_store", "op_heads", "submodule_store", "store/extra"}

// Shadow makes one below scratch, which is made too if it isn't there. A change that a killed
// process of ours began is waited for.
func (r *Repository) Shadow(ctx context.Context, scratch string) (_ *Shadow, err error) {
	if err := r.settled(ctx); err != nil {
		return nil, err
	}
	git, err := r.Git.Shadow(scratch)
	if err != nil {
		return nil, err
	}
	s := &Shadow{Repository: r, Git: git, scratch: scratch}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Dir, err = workspace.MakeScratch(scratch, "jj"); err != nil {
		return nil, fmt.Errorf("making a shadow of %s: %w", r.Dir, err)
	}
	return s, errors.Join(
		layOut(s.Dir, r.Dir, filepath.Join(r.Dir, "index"), git.Dir),
		write(filepath.Join(s.Dir, ".jj/working_copy/checkout"), checkout),
		write(filepath.Join(s.Dir, "config.toml"), settings))
}

// checkout names the workspace that a shadow is, as a message of local_working_copy.proto: none
// that a repository has, so that jj has no working copy to look after.
const checkout = "\x1a\x0dforage shadow"

// layOut makes a .jj in dir over the operations of repo, an index, and the objects of git. It lacks
// its checkout.
func layOut(dir, repo, index, git string) error {
	made, copied := filepath.Join(dir, ".jj/repo"), filepath.Join(dir, ".jj/working_copy")
	err := errors.Join(os.MkdirAll(filepath.Join(made, "store"), 0o700), os.MkdirAll(copied, 0o700))
	for _, name := range shared {
		err = errors.Join(err, os.Symlink(filepath.Join(repo, name), filepath.Join(made, name)))
	}
	return errors.Join(err, os.Symlink(index, filepath.Join(made, "index")),
		write(filepath.Join(made, "store/type"), "git"), write(filepath.Join(made, "store/git_target"), git),
		write(filepath.Join(copied, "type"), "local"), write(filepath.Join(copied, "tree_state"), ""))
}

// own makes a folder that is, to jj, the user's own workspace, and returns it. It is for questions
// alone.
func (s *Shadow) own() (string, error) {
	dir := filepath.Join(s.Dir, "own")
	if exists(dir) {
		return dir, nil
	}
	copied := filepath.Join(dir, ".jj/working_copy")
	return dir, errors.Join(
		os.MkdirAll(copied, 0o700),
		write(filepath.Join(dir, ".jj/repo"), filepath.Join(s.Dir, ".jj/repo")),
		write(filepath.Join(copied, "type"), "local"), write(filepath.Join(copied, "tree_state"), ""),
		os.Symlink(filepath.Join(s.Repository.Root, ".jj/working_copy/checkout"), filepath.Join(copied, "checkout")))
}

// Close removes the shadow; of the repository it removes nothing.
func (s *Shadow) Close() error {
	if s.Dir == "" {
		return s.Git.Close()
	}
	return errors.Join(s.Git.Close(), os.RemoveAll(s.Dir))
}

// settings is all of our jj's configuration: it asks nobody, starts nothing, and rewrites no commit
// that a ref stood for until now.
const settings = `[operation]
username = "forage"
hostname = "forage"
[ui]
paginate = "never"
pager = "false"
editor = "false"
diff-editor = ":builtin"
merge-editor = ":builtin"
diff-formatter = ":git"
color = "never"
[fsmonitor]
backend = "none"
[signing]
backend = "none"
behavior = "drop"
[snapshot]
auto-track = "none()"
auto-update-stale = false
[git]
abandon-unreachable-commits = false
executable-path = "/bin/false"
sign-on-push = false
write-change-id-header = true
[hints]
resolving-conflicts = false
`

// JJ runs a jj that only asks the repository for something in the shadow, and returns what it wrote
// to stdout. An error has jj's own words, which may hold names from inside: escape them.
func (s *Shadow) JJ(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, s.Dir, hostexec.Command{Argv: args})
}

// run starts jj with nothing but our settings. Argv of the command are jj's arguments. It is quiet:
// one that outlives us gives up, before its end, at the first word for which nobody is there.
func (s *Shadow) run(ctx context.Context, dir string, c hostexec.Command) (string, error) {
	args := c.Argv
	c.Argv, c.Dir, c.Timeout = append([]string{"jj", "--quiet"}, args...), dir, deadline.Progress
	c.Env = environment(s.Dir)
	out, err := hostexec.Run(ctx, c)
	if errors.Is(err, hostexec.ErrNoProgram) {
		return "", notInstalled(err)
	}
	if said := strings.TrimSpace(string(out.Stderr)); err != nil && said != "" {
		return "", fmt.Errorf("jj %s: %s (%w)", args[0], said, err)
	}
	return string(out.Stdout), err
}

// environment is all that jj sees of ours. It keeps the settings of a repository that it makes
// below dir.
func environment(dir string) []string {
	return []string{
		"HOME=/nonexistent", "XDG_CONFIG_HOME=" + dir, "JJ_CONFIG=" + filepath.Join(dir, "config.toml"),
		"COLUMNS=80", // or jj starts tput to find out
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_NO_REPLACE_OBJECTS=1",
	}
}

// Installed says whether there is a jj that we may run; the error says what to do.
func Installed() error {
	if _, err := hostexec.Find("jj"); err != nil {
		return notInstalled(err)
	}
	return nil
}

func notInstalled(err error) error {
	return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "the repository needs %w", err),
		"put it where the programs of all users are, for example: sudo install ~/.cargo/bin/jj /usr/local/bin/jj")
}

func write(file, text string) error { return os.WriteFile(file, []byte(text), 0o600) }

// Change runs a jj that changes the repository, and no working copy.
func (s *Shadow) Change(ctx context.Context, args ...string) error {
	return s.change(ctx, append([]string{"--ignore-working-copy"}, args...)...)
}

// GitImport has jj take over what was done to git's branches.
func (s *Shadow) GitImport(ctx context.Context) error { return s.Change(ctx, "git", "import") }

// change runs a jj that is not killed with us: for a moment it has locks on git's refs that no
// other program would remove. jj's own lock of the repository is held for as long as it runs: in a
// shadow it takes another one.
func (s *Shadow) change(ctx context.Context, args ...string) error {
	held, err := s.Repository.lock(ctx, os.O_CREATE)
	if err != nil {
		return err
	}
	defer unlock(held)
	defer hostexec.Hold(held)()
	_, err = s.run(ctx, s.Dir, hostexec.Command{Argv: args, Outlives: true})
	return err
}

// settled waits for a change of ours, or of the user's jj, that is going on.
func (r *Repository) settled(ctx context.Context) error {
	held, err := r.lock(ctx, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // where we may not write, no change is ours
	}
	if err == nil {
		unlock(held)
	}
	return err
}

// lock takes jj's lock for git's refs: flock(2) on a file that its holder removes.
func (r *Repository) lock(ctx context.Context, flags int) (*os.File, error) {
	path := filepath.Join(r.Dir, "git_import_export.lock")
	for {
		f, err := os.OpenFile(path, flags|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking: %w", err)
		}
		var stat unix.Stat_t
		if err := errors.Join(workspace.Flock(ctx, f, unix.LOCK_EX), unix.Fstat(int(f.Fd()), &stat)); err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if stat.Nlink > 0 {
			return f, nil
		}
		_ = f.Close() // the holder before us removed it
	}
}

// unlock does what jj does.
func unlock(f *os.File) { _, _ = os.Remove(f.Name()), f.Close() }

// Identity asks jj for the name and mail in the caller's own configuration, and no repository's:
// there is none at /. "" where there is no jj, or nothing is set.
func Identity(ctx context.Context, home, xdg string) (name, email string) {
	get := func(key string) string {
		out, err := hostexec.Run(ctx, hostexec.Command{
			Argv: []string{"jj", "--quiet", "config", "get", key}, Env: []string{"HOME=" + home, "XDG_CONFIG_HOME=" + xdg},
		})
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out.Stdout))
	}
	return get("user.name"), get("user.email")
}
