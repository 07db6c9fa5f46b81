package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// Refs are the refs of a repository of the host's: full names.
type Refs struct {
	Values   map[string]string // hex
	Peeled   map[string]string // of some annotated tags, what they point to
	Symbolic map[string]string // name to name, as of refs/remotes/origin/HEAD; never HEAD itself
}

// maxPacked bounds packed-refs, in bytes: millions of refs.
const maxPacked = 256 << 20

// Refs reads all of them, but those that belong to one working folder.
func (r *Repository) Refs(ctx context.Context, scratch string) (Refs, error) {
	refs := Refs{Values: map[string]string{}, Peeled: map[string]string{}, Symbolic: map[string]string{}}
	if r.RefFormat != "files" {
		return refs, r.askRefs(ctx, scratch, refs)
	}
	if err := r.looseRefs(refs); err != nil { // first: a ref that is packed meanwhile is found in one of the two
		return refs, err
	}
	return refs, r.packedRefs(refs)
}

// packedRefs reads gitrepository-layout(5)'s packed-refs, which count less than loose ones.
func (r *Repository) packedRefs(refs Refs) error {
	file := filepath.Join(r.Common, "packed-refs")
	text, err := readRegular(file, maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	last := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if peeled, ok := strings.CutPrefix(line, "^"); ok {
			if last != "" {
				refs.Peeled[last] = peeled
			}
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		last = ""
		if ok && isHex(id) && refs.Values[name] == "" && refs.Symbolic[name] == "" {
			refs.Values[name], last = id, name
		}
	}
	return nil
}

// looseRefs reads the files below refs/.
func (r *Repository) looseRefs(refs Refs) error {
	root := filepath.Join(r.Common, "refs")
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // packed or deleted meanwhile
		}
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		text, err := readRegular(path, maxPointer) // a link too: so does git
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name := "refs" + strings.TrimPrefix(path, root)
		value := string(bytes.TrimSpace(text))
		if target, ok := strings.CutPrefix(value, "ref:"); ok {
			refs.Symbolic[name] = strings.TrimSpace(target)
		} else if isHex(value) {
			refs.Values[name] = value
		}
		return nil
	})
}

// askRefs asks git, for formats that we don't read ourselves.
func (r *Repository) askRefs(ctx context.Context, scratch string, refs Refs) (err error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out, err := s.Git(ctx, Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname) %(symref)"}})
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		switch len(fields) {
		case 2:
			refs.Values[fields[1]] = fields[0]
		case 3:
			refs.Symbolic[fields[1]] = fields[2]
		}
	}
	return nil
}

// Resolve is the commit that a full ref name stands for, "" if there is none.
func (refs Refs) Resolve(name string) string {
	for range 5 { // as git does
		if id := refs.Values[name]; id != "" {
			return id
		}
		if name = refs.Symbolic[name]; name == "" {
			break
		}
	}
	return ""
}

// hidden are refs that nobody inside has a use for: of one working folder, of Forage's, of jj's, of what waits
// in the user's stash.
var hidden = [...]string{
	"refs/bisect/", "refs/worktree/", "refs/rewritten/", "refs/stash", "refs/forage/", "refs/jj/", "refs/prefetch/",
}

func isHidden(name string) bool {
	return slices.ContainsFunc(hidden[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func isHex(id string) bool {
	if len(id) != 40 && len(id) != 64 {
		return false
	}
	return strings.Trim(id, "0123456789abcdef") == ""
}

// FreeBranch refuses a branch name that is taken, or that can't be beside those that are.
func (refs Refs) FreeBranch(branch string) error {
	name := "refs/heads/" + branch
	for other := range refs.Values {
		if other != name && !strings.HasPrefix(other, name+"/") {
			continue
		}
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the branch %s is there already", strings.TrimPrefix(other, "refs/heads/")),
			"choose another name for the sandbox, or merge what is on it and delete it: git branch -d "+strings.TrimPrefix(other, "refs/heads/"))
	}
	return nil
}
