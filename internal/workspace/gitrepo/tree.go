package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"forage/internal/workspace"
)

// Tree is the content of a working folder as an object of git.
type Tree struct {
	ID string // hex
	// Nested are repositories inside the folder, relative to it. They are left out: git
	// would have to look into them.
	Nested []string
	// Left are files that are left out although nothing ignores them.
	Left []Left
}

// Left is a file that is not in a Tree, and why. Path comes from inside: escape it.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Folder is a working folder that a Tree is made of.
type Folder struct {
	Path  string // hostile, and changed meanwhile
	Base  string // the commit or tree that its files are tracked by; "" is none
	Index string // a file of ours that makes the next call quicker; it may be absent
	// Seed is an index of the host's to begin with where there is no Index yet: of the checkout of
	// Base, whose files need not all be read then. "" or an absent one is none.
	Seed string
	// Rules are the commits whose .gitignore files count: see Shadow.Rules.
	Rules []string
	Most  int64 // bytes of changed files that are read, the rest is left out; 0 is 16 GiB
}

// WriteTree makes a tree of what is in folder now: tracked and untracked files, without what is
// ignored. Nothing in folder is executed and no filter runs; git looks at names and times there, and
// what is read is read by us, through no link. So a folder that turns into a link at
// the wrong moment brings no file of the host's into objects that the sandbox sees. Objects go to
// the shadow's: see Staging.
func (s *Shadow) WriteTree(ctx context.Context, folder Folder) (Tree, error) {
	tree, err := s.writeTree(ctx, folder, true)
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !isTooLong(err) && !errors.Is(err, errHeld) {
		// The kept index may be cut off, or name objects that a gc has taken away since.
		tree, err = s.writeTree(ctx, folder, false)
	}
	if err != nil {
		return tree, fmt.Errorf("reading the files of %s: %w", folder.Path, TooLong(err))
	}
	return tree, nil
}

func (s *Shadow) writeTree(ctx context.Context, folder Folder, reuse bool) (Tree, error) {
	root, err := openFolder(folder.Path)
	if err != nil {
		return Tree{}, err
	}
	defer root.close()
	w := treeWriter{shadow: s, folder: folder, root: root, index: filepath.Join(s.Dir, "tree.index")}
	if err := w.begin(ctx, reuse); err != nil {
		return Tree{}, err
	}
	if err := w.unhide(ctx); err != nil {
		return Tree{}, err
	}
	changed, err := w.changed(ctx)
	if err != nil {
		return Tree{}, err
	}
	if err := w.record(ctx, changed); err != nil {
		return Tree{}, err
	}
	id, err := w.git(ctx, nil, "write-tree")
	if err != nil {
		return Tree{}, err
	}
	w.tree.ID = strings.TrimSpace(string(id))
	return w.tree, w.keep(ctx)
}

// treeWriter is one WriteTree. It works on an index of its own, so that two at the same time are
// not in each other's way.
type treeWriter struct {
	shadow *Shadow
	folder Folder
	root   *folderRoot
	index  string
	base   string // id of the tree of folder.Base
	exact  bool   // no conversion of line ends or encodings
	bytes  int64  // that were read
	tree   Tree
}

// git runs git over the folder and our index. Of the folder it may only list names and compare files.
func (w *treeWriter) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return w.shadow.Git(ctx, Call{Args: args, Stdin: stdin, WorkTree: w.folder.Path, Index: w.index})
}

// begin makes the index: the kept one or the seed, brought to base.
func (w *treeWriter) begin(ctx context.Context, reuse bool) (err error) {
	if err := os.Remove(w.index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if w.folder.Base != "" {
		w.base, err = w.shadow.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", w.folder.Base+"^{tree}")
		if err != nil {
			return fmt.Errorf("the base %s is not in the repository: %w", w.folder.Base, err)
		}
	}
	from := ""
	if reuse {
		from = w.copyKept()
	}
	switch {
	case w.base == "" && from == "":
		return nil
	case w.base == from:
		return w.forgetIgnored(ctx)
	case w.base == "":
		_, err = w.git(ctx, nil, "read-tree", "--empty")
	case from == "":
		_, err = w.git(ctx, nil, "read-tree", w.base)
	default:
		_, err = w.git(ctx, nil, "read-tree", "-m", w.base) // keeps the times of files that are the same
	}
	return err
}

// copyKept copies the kept index or the seed to ours, and says of which tree it is; "?" is not known.
func (w *treeWriter) copyKept() string {
	if w.folder.Index != "" && CopyIndex(w.folder.Index, w.index) == nil {
		if from, err := readSmall(w.folder.Index + ".base"); err == nil {
			return string(from)
		}
	}
	if w.folder.Seed != "" && CopyIndex(w.folder.Seed, w.index) == nil {
		return "?"
	}
	return ""
}

// CopyIndex copies an index with its time: by that, git knows which of its entries were
// written in the same instant as their files, and looks into those again.
func CopyIndex(from, to string) error { return workspace.CopyFile(from, to, maxIndex) }

// forgetIgnored takes out of a kept index what was untracked when it was added, and is ignored now.
func (w *treeWriter) forgetIgnored(ctx context.Context) error {
	ignored, err := w.shadow.Git(ctx, Call{
		Args: []string{"ls-files", "-z", "-c", "-i", "--exclude-standard"}, WorkTree: w.folder.Path, Index: w.index, Brief: true,
	})
	if err != nil || len(ignored) == 0 {
		return TooLong(err)
	}
	tracked := make(map[string]bool)
	if w.base != "" {
		names, err := w.git(ctx, nil, "ls-tree", "-r", "-z", "--name-only", w.base)
		if err != nil {
			return err
		}
		for name := range fields(names) {
			tracked[name] = true
		}
	}
	var out bytes.Buffer
	for name := range fields(ignored) {
		if !tracked[name] {
			w.remove(&out, name)
		}
	}
	return w.update(ctx, out.Bytes())
}

// unhide clears the marks by which an index has files passed over: a sandbox could
// write such a file. Of those that a sparse checkout leaves out only what is there is unhidden.
func (w *treeWriter) unhide(ctx context.Context) error {
	list, err := w.git(ctx, nil, "ls-files", "-z", "-v", "-s")
	if err != nil {
		return err
	}
	var assumed, skipped bytes.Buffer
	for entry := range fields(list) {
		head, name, ok := strings.Cut(entry, "\t")
		if !ok || len(head) < 8 {
			continue
		}
		tag, gitlink := head[0], strings.HasPrefix(head[2:], "160000 ")
		if tag >= 'a' && tag <= 'z' {
			assumed.WriteString(name + "\x00")
		}
		if (tag == 'S' || tag == 's') && !gitlink && w.root.exists(name) {
			skipped.WriteString(name + "\x00")
		}
	}
	if assumed.Len() > 0 {
		if _, err := w.git(ctx, assumed.Bytes(), "update-index", "--no-assume-unchanged", "-z", "--stdin"); err != nil {
			return err
		}
	}
	if skipped.Len() > 0 {
		if _, err := w.git(ctx, skipped.Bytes(), "update-index", "--no-skip-worktree", "-z", "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// changed are the files that are not as the index has them, and those that it has not.
func (w *treeWriter) changed(ctx context.Context) ([]string, error) {
	found, err := w.shadow.differing(ctx, w.folder.Path, w.index, w.folder.Rules)
	if err != nil {
		return nil, err
	}
	for _, folder := range found.closed {
		w.leave(strings.TrimSuffix(folder, "/"), "a folder that can't be looked into")
	}
	for _, name := range found.hidden {
		why := newRule
		folder, isFolder := strings.CutSuffix(name, "/")
		if isFolder {
			why += ": a folder with " + CountFiles(filepath.Join(w.folder.Path, folder))
		}
		w.leave(folder, why)
	}
	if w.tree.Nested, err = w.nestedLinks(ctx); err != nil {
		return nil, err
	}
	var names []string
	seen := make(map[string]bool)
	for _, name := range found.files {
		if nested, ok := strings.CutSuffix(name, "/"); ok {
			w.tree.Nested = append(w.tree.Nested, nested)
		} else if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, nil
}

// nestedLinks are the repositories in the folder that were committed as if they were submodules: all that is kept of them in a
// commit is which one they were at. A submodule itself has a file as its .git, and is left alone.
func (w *treeWriter) nestedLinks(ctx context.Context) (nested []string, err error) {
	links, err := w.shadow.Repository.Gitlinks(ctx, w.index, w.shadow.Dir)
	for _, link := range links {
		if _, err := w.root.open(path.Join(link, ".git")); errors.Is(err, errFolder) {
			nested = append(nested, link)
		}
	}
	return nested, err
}

// keep keeps the index for the next time. That it can't be kept only costs time.
func (w *treeWriter) keep(ctx context.Context) error {
	if w.folder.Index == "" {
		return nil
	}
	// Compares content where times differ; that a file was changed again meanwhile makes it exit with 1.
	_, _ = w.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	if err := os.Remove(w.folder.Index + ".base"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	suffix := "." + filepath.Base(w.shadow.Dir)
	err := CopyIndex(w.index, w.folder.Index+suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a folder without files: there is no index
	}
	return errors.Join(err,
		os.Rename(w.folder.Index+suffix, w.folder.Index),
		os.WriteFile(w.folder.Index+".base"+suffix, []byte(w.base), 0o600),
		os.Rename(w.folder.Index+".base"+suffix, w.folder.Index+".base"))
}

// fields are the parts of a list that end with a zero byte.
func fields(list []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(list) > 0 {
			field, rest, _ := bytes.Cut(list, []byte{0})
			if list = rest; !yield(string(field)) {
				return
			}
		}
	}
}
