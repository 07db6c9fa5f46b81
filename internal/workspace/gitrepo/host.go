package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"forage"
	"forage/internal/workspace"
)

// The user's branches are shown inside as a remote: a bare repository of ours without objects of its own, read-only. A fetch from
// it finds all objects in the folders that private metadata borrows from. Its branches are written anew when the user's have moved.

// hostRemote is the name of the remote, and of its folder in the private one.
const hostRemote = "host"

// pinRef holds what was shown inside of the user's repository: a branch that the user deletes is collected by their git, and the
// repository inside would be broken. It is a commit of ours, with all that was ever shown as its ancestors.
func pinRef(branch string) string { return "refs/forage/pin/" + branch }

// viewFolder is where the remote is on the host.
func viewFolder(repository forage.Repository) string {
	return filepath.Join(repository.Dir, hostRemote)
}

// hostInside is where the remote is shown; "" if it isn't.
func hostInside(repository forage.Repository) string {
	for _, m := range repository.Mounts {
		if m.Source == viewFolder(repository) {
			return m.Target
		}
	}
	return ""
}

// makeView makes the remote. What it and the private metadata show is pinned first.
func (r *Repository) makeView(ctx context.Context, p Private) error {
	tips := []string{p.Base}
	for name, id := range p.Refs.Values {
		if !isHidden(name) {
			tips = append(tips, id)
		}
	}
	if err := r.pin(ctx, p.Branch, tips, p.Scratch); err != nil {
		return err
	}
	dir := viewFolder(p.Repository)
	config := configText{"core.bare": {"true"}, "core.repositoryformatversion": {"1"}, "extensions.objectformat": {r.ObjectFormat}}
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "objects/info"), 0o700), os.MkdirAll(filepath.Join(dir, "refs"), 0o700))
	shallow := filepath.Join(r.Common, "shallow")
	if !gone(shallow) {
		err = errors.Join(err, workspace.CopyFile(shallow, filepath.Join(dir, "shallow"), maxConfig))
	}
	return errors.Join(err,
		writeNew(filepath.Join(dir, "HEAD"), "ref: "+branchRef(cmp.Or(r.Head, "main"))+"\n"),
		writeNew(filepath.Join(dir, "config"), config.String()),
		writeNew(filepath.Join(dir, "objects/info/alternates"), alternatesInside(p.Repository)),
		writeNew(filepath.Join(dir, "packed-refs"), userBranches(p.Refs)))
}

// userBranches are the branches but those of sandboxes, as packed-refs.
func userBranches(refs Refs) string {
	var b strings.Builder
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	names := slices.AppendSeq(slices.Collect(maps.Keys(refs.Values)), maps.Keys(refs.Symbolic))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		id := refs.Resolve(name)
		if strings.HasPrefix(name, branchRef("")) && !strings.HasPrefix(name, branchRef(workspace.BranchPrefix)) && id != "" && validRef(name) {
			b.WriteString(id + " " + name + "\n")
		}
	}
	return b.String()
}

// ShowHost brings the remote of w to where the user's branches are now. It starts no git when they haven't moved.
func ShowHost(ctx context.Context, w forage.Workspace, scratch string) error {
	file := filepath.Join(viewFolder(*w.Repository), "packed-refs")
	if gone(file) {
		return nil // none was made
	}
	r, err := Moved(w)
	if err != nil {
		return err
	}
	if shown, err := os.ReadFile(file); err != nil {
		return err
	} else if now, err := r.Refs(ctx, scratch); err != nil || userBranches(now) == string(shown) {
		return err
	}
	unlock, err := lockFile(ctx, viewFolder(*w.Repository)+lockSuffix)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := os.ReadFile(file) // somebody may have written it
	if err != nil {
		return err
	}
	refs, err := r.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	now := userBranches(refs)
	tips, err := parsePacked([]byte(now))
	if err != nil {
		return err
	}
	shown, err := parsePacked(text)
	if err != nil {
		return err
	}
	pinned := slices.Collect(maps.Values(shown))
	maps.DeleteFunc(tips, func(_, id string) bool { return slices.Contains(pinned, id) })
	if err := r.pin(ctx, w.Branch, slices.Collect(maps.Values(tips)), scratch); err != nil {
		return err
	}
	return renameio.WriteFile(file, []byte(now), 0o600, renameio.WithTempDir(filepath.Dir(viewFolder(*w.Repository))))
}

// pin adds commits, and what tags point to, to those that the pin of a sandbox's branch holds.
func (r *Repository) pin(ctx context.Context, branch string, ids []string, scratch string) (err error) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return nil
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	slices.Sort(ids)
	commits, err := s.Git(ctx, Call{
		Args: []string{"cat-file", "--batch-check=%(objectname)"}, Stdin: []byte(strings.Join(slices.Compact(ids), "^{commit}\n") + "^{commit}\n"),
	})
	if err != nil {
		return fmt.Errorf("pinning what is shown inside: %w", err)
	}
	before, err := s.Branch(ctx, pinRef(branch))
	if err != nil {
		return err
	}
	var b strings.Builder
	why := "what the sandbox of " + branch + " needs; `forage-ctl down` removes this ref\n"
	fmt.Fprintf(&b, "commit %s\ncommitter forage <forage@localhost> %d +0000\ndata %d\n%s", pinRef(branch), time.Now().Unix(), len(why), why)
	if before != "" {
		b.WriteString("from " + before + "\n")
	}
	for id := range strings.Lines(string(commits)) {
		if id = strings.TrimSpace(id); isHex(id) { // else it is missing, or a tag of something else
			b.WriteString("merge " + id + "\n")
		}
	}
	b.WriteString("deleteall\n\n")
	if _, err := s.Git(ctx, Call{Args: []string{"fast-import", "--quiet"}, Stdin: []byte(b.String())}); err != nil {
		return fmt.Errorf("pinning what is shown inside: %w", lockedHint(err, pinRef(branch)))
	}
	return nil
}

// PinFork has the pin of a fork hold what that of the first holds: the fork has its refs.
func PinFork(ctx context.Context, from, to forage.Workspace, scratch string) error {
	if hostInside(*from.Repository) == "" || hostInside(*to.Repository) == "" {
		return nil
	}
	r, err := Moved(to)
	if err != nil {
		return err
	}
	refs, err := r.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	return r.pin(ctx, to.Branch, []string{refs.Values[pinRef(from.Branch)]}, scratch)
}

// Unpin lets go of what was shown in a sandbox that is removed.
func (s *Shadow) Unpin(ctx context.Context, branch string) error {
	at, err := s.Branch(ctx, pinRef(branch))
	if err != nil || at == "" {
		return err
	}
	_, err = s.Git(ctx, Call{Args: []string{"update-ref", "--no-deref", "-d", pinRef(branch)}})
	return err
}
