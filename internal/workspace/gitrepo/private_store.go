package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Store is a bare repository of Forage's own: what a clone is on the host.
type Store struct {
	Path   string
	Branch string      // HEAD
	Format string      // of objects: "sha1" or "sha256"
	Origin string      // the URL or path that it is a clone of
	Source *Repository // the host's repository whose objects it borrows; nil for what is fetched
}

// CreateStore makes it. What it borrows from is not changed, and has no idea of it.
func CreateStore(ctx context.Context, s Store, scratch string) error {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
		return fmt.Errorf("making the clone: %w", err)
	}
	if err := os.Mkdir(s.Path, 0o700); err != nil {
		return fmt.Errorf("making the clone: %w", err)
	}
	for _, dir := range [...]string{"refs/heads", "refs/tags", "objects/info", "objects/pack", "info", "logs"} {
		if err := os.MkdirAll(filepath.Join(s.Path, dir), 0o700); err != nil {
			return fmt.Errorf("making the clone: %w", err)
		}
	}
	err := errors.Join(
		writeNew(filepath.Join(s.Path, "HEAD"), "ref: refs/heads/"+s.Branch+"\n"),
		writeNew(filepath.Join(s.Path, "config"), s.config()))
	if s.Source != nil {
		err = errors.Join(err, s.borrow(ctx, scratch))
	}
	if err != nil {
		return fmt.Errorf("making the clone: %w", err)
	}
	return nil
}

func (s Store) config() string {
	c := configText{}
	if s.Source != nil {
		for _, key := range carried {
			if value := s.Source.last(key); value != "" && key != "extensions.refstorage" && key != "core.sharedrepository" {
				c.add(key, value)
			}
		}
	}
	c.set("core.repositoryformatversion", "0")
	if s.Format != "sha1" {
		c.set("core.repositoryformatversion", "1")
		c.set("extensions.objectformat", s.Format)
	}
	c.add("core.bare", "true")
	c.add("core.logallrefupdates", "true")
	c.add("gc.auto", "0") // sandboxes read its objects
	c.add("remote.origin.url", publicURL(s.Origin))
	c.add("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
	return c.String()
}

// borrow takes over the refs of the source as a clone has them, and names its objects.
func (s Store) borrow(ctx context.Context, scratch string) error {
	refs, err := s.Source.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	dirs, err := s.Source.ObjectDirs()
	if err != nil {
		return err
	}
	var borrowed strings.Builder
	for _, dir := range dirs {
		borrowed.WriteString(quoteAlternate(dir.Path) + "\n")
	}
	cloned := originRefs(refs)
	if s.Source.Head != "" && cloned.Values["refs/remotes/origin/"+s.Source.Head] != "" {
		cloned.Symbolic["refs/remotes/origin/HEAD"] = "refs/remotes/origin/" + s.Source.Head
	}
	shallow, err := readRegular(filepath.Join(s.Source.Common, "shallow"), maxConfig)
	if err == nil {
		err = writeNew(filepath.Join(s.Path, "shallow"), string(shallow))
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err,
		writeNew(filepath.Join(s.Path, "objects/info/alternates"), borrowed.String()),
		writeRefs(s.Path, Private{Refs: cloned}))
}

// originRefs are the refs of a repository as a clone of it has them.
func originRefs(refs Refs) Refs {
	cloned := Refs{Values: map[string]string{}, Peeled: map[string]string{}, Symbolic: map[string]string{}}
	for name := range refs.Values {
		cloned.take(refs, name)
	}
	for name := range refs.Symbolic {
		cloned.take(refs, name)
	}
	return cloned
}

func (refs Refs) take(from Refs, name string) {
	as := name
	if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
		as = "refs/remotes/origin/" + branch
	} else if !strings.HasPrefix(name, "refs/tags/") {
		return
	}
	if id := from.Resolve(name); id != "" {
		refs.Values[as] = id
	}
	if peeled := from.Peeled[name]; peeled != "" {
		refs.Peeled[as] = peeled
	}
}

// Follow makes the refs of a clone's origin what they are in the source now, so that what has come to be there counts as saved.
func Follow(ctx context.Context, store, source *Repository, scratch string) (err error) {
	now, err := source.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	had, err := store.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	var changes strings.Builder
	for name, id := range originRefs(now).Values {
		if had.Values[name] != id && strings.HasPrefix(name, "refs/remotes/origin/") && had.Symbolic[name] == "" {
			fmt.Fprintf(&changes, "update %s\x00%s\x00\x00", name, id)
		}
	}
	if changes.Len() == 0 {
		return nil
	}
	s, err := store.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.Git(ctx, Call{Args: []string{"update-ref", "-z", "--stdin"}, Stdin: []byte(changes.String())})
	return err
}

// quoteAlternate writes a path as a line of objects/info/alternates: gitrepository-layout(5).
func quoteAlternate(path string) string {
	if !strings.ContainsAny(path, "\n\"") && !strings.HasPrefix(path, "#") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// unquoteAlternate is its inverse; false when the line is broken.
func unquoteAlternate(line string) (string, bool) {
	if !strings.HasPrefix(line, `"`) {
		return line, true
	}
	inner, ok := strings.CutSuffix(line[1:], `"`)
	if !ok || strings.Contains(strings.NewReplacer(`\\`, "", `\"`, "", `\n`, "").Replace(inner), `\`) {
		return "", false
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(inner), true
}

// RemoveStore removes a store that CreateStore made.
func RemoveStore(path string) error { return removeAll(path) }

// MoveStore moves a store aside, to a place where nothing is, or where an earlier call has moved it.
func MoveStore(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("keeping the clone: %w", err)
	}
	if err := os.Rename(from, to); err != nil && (!gone(from) || gone(to)) {
		return fmt.Errorf("keeping the clone: %w", err)
	}
	return os.RemoveAll(filepath.Join(to, "worktrees"))
}
