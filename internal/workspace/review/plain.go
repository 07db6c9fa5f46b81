package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/copied"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// plain is what a session knows of a copy of a folder that has no repository. The trees of such a session have only the
// files that the work changed: of the source as it is now, and of the copy.
type plain struct {
	moved map[string]bool // files of the source that were changed there since the copy was made
}

// openPlain reviews a copy: what differs from the listing that was taken when it was made.
func openPlain(ctx context.Context, subject Subject) (_ *Session, err error) {
	s := &Session{Review: Review{Part: subject.part(), Changes: []Change{}}, subject: subject, plain: &plain{moved: make(map[string]bool)}}
	if s.state, err = readState(subject.folder()); err != nil {
		return nil, err
	}
	if s.store, err = plainStore(ctx, subject); err != nil {
		return nil, err
	}
	if s.staging, err = plainShadow(s.store, subject); err != nil {
		return nil, err
	}
	if err := s.comparePlain(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reviewing %s: %w", subject.Sandbox, err), s.Close())
	}
	return s, nil
}

func (s *Session) comparePlain(ctx context.Context) error {
	w := s.subject.Workspace
	base := copied.Provider{Places: s.subject.Places}.Base(w)
	found, err := snapshot.Compare(ctx, base, snapshot.Folder{Path: w.Path}, filepath.Join(s.subject.folder(), "copy"))
	if err != nil {
		return err
	}
	var names []string
	for _, d := range found {
		if d.Path != "" {
			names = append(names, d.Path)
		}
	}
	moved, err := snapshot.Compare(ctx, base, snapshot.Folder{Path: w.Source}, filepath.Join(s.subject.folder(), "source"))
	if errors.Is(err, fs.ErrNotExist) {
		return gone(w.Source, err)
	}
	if err != nil {
		return err
	}
	for _, d := range moved {
		s.plain.moved[d.Path] = true
	}
	before, err := s.staging.TreeOf(ctx, w.Source, names)
	if err != nil {
		return err
	}
	after, err := s.staging.TreeOf(ctx, w.Path, names)
	if err != nil {
		return err
	}
	s.base, s.Tree, s.work, s.Left = before.ID, after.ID, after.ID, after.Left
	if s.Changes, err = s.changes(ctx, s.base, s.Tree, true); err != nil {
		return err
	}
	if both := s.bothChanged(s.Changes); len(both) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s changed in %s too since the copy was made, and compared with what is there now: %s", are(len(both)), w.Source, strings.Join(both, ", ")))
	}
	return s.findHazards(ctx, after)
}

func are(n int) string {
	if n == 1 {
		return "1 file was"
	}
	return fmt.Sprintf("%d files were", n)
}

// bothChanged are the changes that the source has other ones of, escaped.
func (s *Session) bothChanged(changes []Change) []string {
	var both []string
	for _, c := range changes {
		applied, ok := s.state.Files[c.Path]
		ours := ok && applied == stage(c.OldMode, c.oldID) // from an earlier apply
		if s.plain.moved[c.Path] && !ours || c.OldPath != "" && s.plain.moved[c.OldPath] {
			both = append(both, term.Escape(c.Path))
		}
	}
	return both
}

// preparePlain is Prepare for the folder that was copied: the changed files are written to it, all of them or none.
func (s *Session) preparePlain(ctx context.Context, o Options) (done Applied, install Install, err error) {
	source := s.store.WorkTree
	done.Part, done.Notes = s.Part, s.leftOut()
	if len(s.Changes) == 0 {
		return done, nil, nil
	}
	done.Folder, done.Before, done.After = source, s.base, s.base
	if o.Into != "" {
		return done, nil, forage.Errorf(forage.ErrUsage, "%s has no repository: there is no branch to apply to", source)
	}
	if err := workspace.CheckOwner(source); err != nil {
		return done, nil, fmt.Errorf("applying to the folder that was copied: %w", err)
	}
	if o.Quiet != nil {
		if err := o.Quiet(source); err != nil {
			return done, nil, err
		}
	}
	i := plainInstallation(s.store, s.staging, s.subject, s.base, s.Tree)
	if len(o.Paths) > 0 {
		if i.after, err = s.selectTree(ctx, o.Paths); err != nil {
			return done, nil, err
		}
	}
	changes, err := s.acceptTree(ctx, i.before, i.after, linksOf(source))
	if err != nil {
		return done, nil, err
	}
	if both := s.bothChanged(changes); len(both) > 0 {
		return done, nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "changed in %s since the copy was made: %s", source, strings.Join(both, ", ")),
			"bring the two together by hand, or choose the other files with --paths")
	}
	done.After, done.Files = i.after, len(changes)
	if err := i.rehearsePlain(ctx); err != nil || o.DryRun {
		return done, nil, err
	}
	return done, func(ctx context.Context) (Applied, error) {
		if err := i.installPlain(ctx, changes); err != nil {
			return done, err
		}
		return done, s.update(ctx, func(state *state) {
			if state.Files == nil {
				state.Files = make(map[string]string)
			}
			for _, c := range changes {
				state.Files[c.Path] = stage(c.NewMode, c.newID)
			}
		})
	}, nil
}

// linksOf are the links in a folder of the user's.
func linksOf(folder string) map[string]string {
	links := make(map[string]string)
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return nil // what can't be read can't be followed
		}
		target, err := os.Readlink(path)
		if name, rel := filepath.Rel(folder, path); err == nil && rel == nil {
			links[name] = target
		}
		return nil
	})
	return links
}

// rehearsePlain is rehearse for a folder that has no index.
func (i *installation) rehearsePlain(ctx context.Context) error {
	if _, err := i.git(ctx, nil, "read-tree", i.before); err != nil {
		return err
	}
	_, _ = i.git(ctx, nil, "update-index", "-q", "--refresh")
	return i.free(ctx)
}

// installPlain writes the files. Those that were there keep who may read them.
func (i *installation) installPlain(ctx context.Context, changes []Change) error {
	modes := make(map[string]fs.FileMode)
	for _, c := range changes {
		if info, err := os.Lstat(filepath.Join(i.repo.WorkTree, c.Path)); err == nil && info.Mode().IsRegular() {
			modes[c.Path] = info.Mode().Perm()
		}
	}
	if err := i.write(i.state); err != nil {
		return err
	}
	if _, err := i.git(ctx, nil, i.readTree()...); err != nil {
		err = errors.Join(fmt.Errorf("updating %s: %w", i.repo.WorkTree, err), i.rollBack(context.WithoutCancel(ctx)))
		return errors.Join(err, i.end())
	}
	for _, c := range changes {
		mode, had := modes[c.Path]
		if !had || c.NewMode == 0 || c.NewMode == modeLink {
			continue
		}
		if mode &^= 0o111; c.NewMode == 0o100755 {
			mode |= mode >> 2 & 0o111
		}
		if err := os.Chmod(filepath.Join(i.repo.WorkTree, c.Path), mode); err != nil {
			return err
		}
	}
	return i.end()
}

// plainInstallation brings a folder without a repository from one tree to another.
func plainInstallation(store *gitrepo.Repository, shadow *gitrepo.Shadow, subject Subject, from, to string) *installation {
	return &installation{
		target:  &target{repo: store, shadow: shadow, trial: shadow, checkedOut: true, sandbox: subject.Sandbox},
		journal: journal{GitDir: store.GitDir, From: from, To: to, Begun: true}, before: from, after: to,
		state: subject.folder(), index: filepath.Join(shadow.Dir, "index"),
	}
}

// recoverPlain takes back what an apply that was killed had written.
func recoverPlain(ctx context.Context, subject Subject, j journal, quiet func(folder string) error) (err error) {
	if quiet != nil {
		if err := quiet(subject.Workspace.Source); err != nil {
			return err
		}
	}
	store, err := plainStore(ctx, subject)
	if err != nil {
		return err
	}
	shadow, err := plainShadow(store, subject)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shadow.Close()) }()
	i := plainInstallation(store, shadow, subject, j.From, j.To)
	if err := i.rollBack(ctx); err != nil {
		return err
	}
	return i.end()
}

func plainStore(ctx context.Context, subject Subject) (*gitrepo.Repository, error) {
	return gitrepo.Plain(ctx, filepath.Join(subject.folder(), "plain"), subject.Workspace.Source)
}

// plainShadow is a shadow that writes files byte for byte: without a repository, no .gitattributes means anything.
func plainShadow(store *gitrepo.Repository, subject Subject) (*gitrepo.Shadow, error) {
	shadow, err := store.Shadow(subject.Places.Scratch)
	if err != nil {
		return nil, err
	}
	attributes := filepath.Join(shadow.Dir, "info/attributes") // which come before those of folders: gitattributes(5)
	err = errors.Join(os.MkdirAll(filepath.Dir(attributes), 0o700),
		os.WriteFile(attributes, []byte("* -text -ident -filter !eol !working-tree-encoding\n"), 0o600))
	if err != nil {
		return nil, errors.Join(err, shadow.Close())
	}
	return shadow, nil
}

// stage is how git ls-files -s shows an entry: "100644 ID 0"; "" is none.
func stage(mode uint32, id string) string {
	if mode == 0 {
		return ""
	}
	return fmt.Sprintf("%06o %s 0", mode, id)
}
