package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// Private is what CreatePrivate makes.
type Private struct {
	Repository forage.Repository // where, over which store, and how it is shown
	Branch     string            // inside, HEAD is this branch; "" is detached
	Base       string            // at this commit; "" is a branch without a commit
	Index      string            // an index file of the host's to begin with; "" has git make one of Base when it is first used
	Unfinished bool              // carry what a merge, cherry-pick or revert in the host's folder waits for
	Remotes    bool              // carry the remotes of the host's repository, without what is secret in their URLs
	Refs       Refs              // what else there is inside; its zero value is: the host's own
	Scratch    string            // for what lives no longer than the call
}

// CreatePrivate makes the private git directory of a workspace: our own configuration, copies of the
// host's refs, and the host's objects as alternates, by the path at which they are shown inside. It starts no
// git where the host's refs are files.
func CreatePrivate(ctx context.Context, r *Repository, p Private) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Join(p.Repository.Dir, "git")
	if err := os.MkdirAll(p.Repository.Dir, 0o700); err != nil {
		return fmt.Errorf("making private repository metadata: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("making private repository metadata: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making private repository metadata: %w", err), removeAll(dir))
		}
	}()
	if p.Refs.Values == nil {
		if p.Refs, err = r.Refs(ctx, p.Scratch); err != nil {
			return err
		}
	}
	if hostInside(p.Repository) != "" {
		if err := r.makeView(ctx, p); err != nil {
			return err
		}
	}
	for _, sub := range [...]string{"refs/heads", "refs/tags", "objects/info", "objects/pack", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	return errors.Join(
		writeNew(filepath.Join(dir, "HEAD"), p.head()),
		writeNew(filepath.Join(dir, "config"), r.privateConfig(p.Remotes, hostInside(p.Repository))),
		writeNew(filepath.Join(dir, "objects/info/alternates"), alternatesInside(p.Repository)),
		writeRefs(dir, p),
		noteRefs(dir, p.Repository),
		r.copyInto(dir, p.Unfinished),
		copyIndex(dir, p.Index),
		writeBeside(p.Repository))
}

// removedSuffix is what private metadata is called while it is removed.
const removedSuffix = ".removed"

// RemovePrivate takes away all private metadata of a workspace, and what is noted beside it. What is in it was
// written inside: nothing is followed, and folders that were closed are opened.
func RemovePrivate(repository forage.Repository) error {
	// From one moment to the next: what is half gone would be taken for work that can't be read.
	removed := repository.Dir + removedSuffix
	err := removeAll(removed)
	if gone := os.Rename(repository.Dir, removed); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	err = errors.Join(err, removeAll(removed), removeAll(repository.Dir+stagingSuffix))
	for _, suffix := range [...]string{importedSuffix, lockSuffix, indexSuffix, refsSuffix, takenSuffix} {
		if gone := os.Remove(repository.Dir + suffix); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	_ = os.Remove(filepath.Dir(repository.Dir)) // the sandbox's, if this was its last part
	return err
}

func (p Private) head() string {
	if p.Branch == "" {
		return p.Base + "\n"
	}
	return "ref: refs/heads/" + p.Branch + "\n"
}

// writeRefs writes the refs in the one file that holds any number of them, and symbolic ones beside it.
func writeRefs(dir string, p Private) error {
	values := make(map[string]string, len(p.Refs.Values)+1)
	for name, id := range p.Refs.Values {
		if !isHidden(name) {
			values[name] = id
		}
	}
	if p.Branch != "" && p.Base != "" {
		values["refs/heads/"+p.Branch] = p.Base
	}
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n") // not "peeled": some are, and those say so
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString(values[name] + " " + name + "\n")
		if peeled := p.Refs.Peeled[name]; peeled != "" && p.Refs.Values[name] == values[name] {
			b.WriteString("^" + peeled + "\n")
		}
	}
	for name, target := range p.Refs.Symbolic {
		if isHidden(name) || !strings.HasPrefix(name, "refs/") || !filepath.IsLocal(name) {
			continue
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), writeNew(file, "ref: "+target+"\n")); err != nil {
			return err
		}
	}
	return writeNew(filepath.Join(dir, "packed-refs"), b.String())
}

// noteRefs keeps what was copied of the host's refs where nobody inside can change it.
func noteRefs(dir string, repository forage.Repository) error {
	text, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil {
		return err
	}
	return os.WriteFile(repository.Dir+refsSuffix, text, 0o600)
}

// copied are files that are taken over as they are: what the history ends at, and which
// files count.
func (r *Repository) copied(unfinished bool) map[string]string {
	files := map[string]string{
		"shallow":              filepath.Join(r.Common, "shallow"),
		"info/exclude":         filepath.Join(r.Common, "info/exclude"),
		"info/attributes":      filepath.Join(r.Common, "info/attributes"),
		"info/sparse-checkout": filepath.Join(r.GitDir, "info/sparse-checkout"),
	}
	if unfinished {
		for _, name := range [...]string{"MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
			files[name] = filepath.Join(r.GitDir, name)
		}
	}
	return files
}

func (r *Repository) copyInto(dir string, unfinished bool) error {
	for name, from := range r.copied(unfinished) {
		text, err := readRegular(from, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := writeNew(filepath.Join(dir, name), string(text)); err != nil {
			return err
		}
	}
	return nil
}

// copyIndex copies an index, and those that it shares entries with.
func copyIndex(dir, from string) error {
	if from == "" {
		return nil
	}
	shared, err := filepath.Glob(filepath.Join(filepath.Dir(from), "sharedindex.*")) // git-update-index(1), "SPLIT INDEX"
	if err != nil {
		return err
	}
	for _, file := range append(shared, from) {
		if err := CopyIndex(file, filepath.Join(dir, filepath.Base(file))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeNew makes a file that is not there yet.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
