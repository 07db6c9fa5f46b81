package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"forage"
)

// Bounds of the files and folders of a commit from inside. A few objects are enough for a tree that names billions of files:
// each git on the host that makes an index of one, or shows what a commit changes, would take all memory for it.
const (
	maxTreeFiles = 4_000_000
	maxTreeNames = 256 << 20 // bytes of their paths
	maxTreePath  = 4096      // bytes of one: PATH_MAX
)

// errTooMany says that a tree is beyond the bounds.
var errTooMany = errors.New("too many files")

// Sized refuses tips when they, or a commit that comes with them and is on no ref of the repository yet, has more files than
// any working folder has. Each tree is read once, in how many commits and folders it may be, and one process reads them all.
func (s *Shadow) Sized(ctx context.Context, tips ...string) error {
	if len(tips) == 0 {
		return nil
	}
	roots, err := s.Git(ctx, Call{
		Args:  []string{"rev-list", "--no-commit-header", "--format=%T %H", "--stdin", "--not", "--all"},
		Stdin: []byte(strings.Join(tips, "\n") + "\n"), Env: readsHostile,
	})
	if err != nil || len(roots) == 0 {
		return err
	}
	reader := s.readTrees(ctx)
	defer reader.close()
	sizes := treeSizes{read: reader.tree, idBytes: len(strings.Fields(string(roots))[0]) / 2, known: map[string]treeSize{}}
	for line := range strings.Lines(string(roots)) {
		tree, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err = sizes.of(tree, 0); err != nil {
			err = fmt.Errorf("the files of the commit %.12s from inside: %w", commit, err)
			break
		}
	}
	if errors.Is(err, errTooMany) {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%w: more than %d, or longer paths than a file can have", err, maxTreeFiles),
			"leave that commit out (git rebase -i); until then the commits stay inside")
	}
	return err
}

// treeSize is what a tree would be if its files were listed by their paths.
type treeSize struct{ entries, bytes, longest int }

func (t treeSize) tooMany() bool {
	return t.entries > maxTreeFiles || t.bytes > maxTreeNames || t.longest > maxTreePath
}

// add adds an entry with a name of so many bytes, and what is in it. Neither was too many by itself, so that no sum overflows.
func (t *treeSize) add(name int, in treeSize) {
	t.entries += 1 + in.entries
	t.bytes += (name+1)*(1+in.entries) + in.bytes
	t.longest = max(t.longest, name+1+in.longest)
}

// treeSizes are the sizes of trees, each found out once.
type treeSizes struct {
	read    func(id string) ([]byte, error)
	idBytes int
	known   map[string]treeSize
	open    int // bytes of the trees that are being added up
}

// of is the size of the tree id, which lies that many folders deep.
func (t *treeSizes) of(id string, depth int) (treeSize, error) {
	if size, ok := t.known[id]; ok {
		return size, nil
	}
	if 2*depth > maxTreePath { // a name and a slash for each
		return treeSize{}, errTooMany
	}
	body, err := t.read(id)
	if err != nil {
		return treeSize{}, err
	}
	if t.open += len(body); t.open > maxLooseParsed {
		return treeSize{}, errTooMany
	}
	var size treeSize
	for rest := body; len(rest) > 0; {
		head, tail, ok := bytes.Cut(rest, []byte{0})
		mode, name, named := bytes.Cut(head, []byte{' '})
		if !ok || !named || len(tail) < t.idBytes {
			return treeSize{}, fmt.Errorf("the tree %s: cut off: %w", id, errIrregular)
		}
		var in treeSize
		if bytes.Equal(bytes.TrimLeft(mode, "0"), []byte("40000")) {
			if in, err = t.of(fmt.Sprintf("%x", tail[:t.idBytes]), depth+1); err != nil {
				return treeSize{}, err
			}
		}
		if size.add(len(name), in); size.tooMany() {
			return treeSize{}, errTooMany
		}
		rest = tail[t.idBytes:]
	}
	t.open -= len(body)
	t.known[id] = size
	return size, nil
}
