package jjrepo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
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
var shared = [...]string{"op_store", "op_heads", "index", "submodule_store", "store/extra"}

// Shadow makes one below scratch, which is made too if it isn't there. A change that a killed process of ours began is waited for.
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
	repo := filepath.Join(s.Dir, ".jj/repo")
	for _, dir := range []string{filepath.Join(repo, "store"), filepath.Join(s.Dir, ".jj/working_copy")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	for _, name := range shared {
		if err := os.Symlink(filepath.Join(r.Dir, name), filepath.Join(repo, name)); err != nil {
			return nil, err
		}
	}
	operation, err := s.anOperation()
	if err != nil {
		return nil, err
	}
	checkout := appendBytes(appendBytes(nil, 2, operation), 3, []byte(shadowName))
	return s, errors.Join(
		write(filepath.Join(repo, "store/type"), "git"),
		write(filepath.Join(repo, "store/git_target"), git.Dir),
		write(filepath.Join(s.Dir, ".jj/working_copy/type"), "local"),
		write(filepath.Join(s.Dir, ".jj/working_copy/tree_state"), ""),
		write(filepath.Join(s.Dir, ".jj/working_copy/checkout"), string(checkout)),
		write(filepath.Join(s.Dir, "config.toml"), settings))
}

// shadowName is the workspace that a shadow is: none that a repository has, so that jj has no
// working copy to look after.
const shadowName = "forage shadow"

// anOperation is one of the repository's last operations.
func (s *Shadow) anOperation() ([]byte, error) {
	entries, err := os.ReadDir(filepath.Join(s.Repository.Dir, "op_heads/heads"))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if id, err := hex.DecodeString(entry.Name()); err == nil && len(id) == operationID {
			return id, nil
		}
	}
	return nil, forage.Errorf(forage.ErrUnsupported, "%s has no operation that this version knows", s.Repository.Dir)
}

// Close removes the shadow; of the repository it removes nothing.
func (s *Shadow) Close() error {
	if s.Dir == "" {
		return s.Git.Close()
	}
	return errors.Join(s.Git.Close(), os.RemoveAll(s.Dir))
}

// settings is all of our jj's configuration: it asks nobody, starts nothing, and rewrites no commit that a
// ref stood for until now.
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

// callTimeout bounds a jj command: a checkout of a big repository on a slow disk.
const callTimeout = 10 * time.Minute

// JJ runs a jj that only asks the repository for something in the shadow, and returns what it wrote to stdout. An error
// has jj's own words, which may hold names from inside: escape them.
func (s *Shadow) JJ(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, s.Dir, hostexec.Command{Argv: args})
}

// run starts jj with nothing but our settings. Argv of the command are jj's arguments. It is quiet: one that outlives us gives up,
// before its end, at the first word for which nobody is there.
func (s *Shadow) run(ctx context.Context, dir string, c hostexec.Command) (string, error) {
	args := c.Argv
	c.Argv, c.Dir, c.Timeout = append([]string{"jj", "--quiet"}, args...), dir, callTimeout
	c.Env = []string{
		"HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "JJ_CONFIG=" + filepath.Join(s.Dir, "config.toml"),
		"COLUMNS=80", // or jj starts tput to find out
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_NO_REPLACE_OBJECTS=1",
	}
	out, err := hostexec.Run(ctx, c)
	if errors.Is(err, hostexec.ErrNoProgram) {
		return "", notInstalled(err)
	}
	if said := strings.TrimSpace(string(out.Stderr)); err != nil && said != "" {
		return "", fmt.Errorf("jj %s: %s (%w)", args[0], said, err)
	}
	return string(out.Stdout), err
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
