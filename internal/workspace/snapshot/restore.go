package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

// Restore makes the folders of r exactly what they were in the snapshot id of a sandbox, which may be
// another than r's. What they are now is kept first, as the snapshot before: nothing is taken away or
// written over that is not in it. So what the snapshot doesn't know and before leaves out (ignored, or made
// while this runs) stays, and is in the way if it is where a file belongs. Folders that the snapshot has and r doesn't stay in it.
//
// Each file changes in one step. A restore that ends early, by an error or by force, can be done again.
func (s Store) Restore(ctx context.Context, sandbox, id string, r Request) (before Snapshot, err error) {
	unlock, err := s.share(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer unlock()
	m, err := s.whole(sandbox, id)
	if err != nil {
		return Snapshot{}, err
	}
	for _, f := range r.Folders {
		if err := makeFolder(f.Path); err != nil {
			return Snapshot{}, explain(err)
		}
	}
	present, err := s.create(ctx, r, m)
	if err != nil {
		return Snapshot{}, err
	}
	var errs []error
	for _, f := range r.Folders {
		if c := m.contents(f.Name); c != nil {
			errs = append(errs, s.put(ctx, f, c, present.contents(f.Name)))
		}
	}
	return present.Snapshot, explain(errors.Join(errs...))
}

// makeFolder makes a folder that is not there, through no link. The one above it need not be readable where it is there.
func makeFolder(name string) error {
	if folder, err := workspace.OpenFolder(name); !errors.Is(err, os.ErrNotExist) {
		folder.Close()
		return err
	}
	parent, err := workspace.OpenFolder(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), path.Base(name), 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// Export writes folders of a snapshot to other places, which must be empty or not there.
func (s Store) Export(ctx context.Context, sandbox, id string, folders []Folder) error {
	unlock, err := s.share(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := s.whole(sandbox, id)
	if err != nil {
		return err
	}
	for _, f := range folders {
		c := m.contents(f.Name)
		if c == nil {
			continue
		}
		if err := os.MkdirAll(f.Path, 0o700); err != nil {
			return explain(err)
		}
		if names, err := list(f.Path); err != nil || len(names) > 0 {
			return errors.Join(err, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is not empty", f.Path), "name a folder that is empty or not there"))
		}
		if err := s.put(ctx, f, c, nil); err != nil {
			return explain(err)
		}
	}
	return nil
}

// whole reads a snapshot, and makes sure that its contents are all there before anything is changed.
func (s Store) whole(sandbox, id string) (*manifest, error) {
	if err := s.check(sandbox, id); err != nil {
		return nil, err
	}
	m, err := readManifest(s.path(sandbox, id))
	if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
		err = s.check(sandbox, id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", id, err)
	}
	o := objects{dir: s.Dir}
	for _, c := range m.folders {
		for _, e := range c.entries {
			if e.kind == kindFile && !o.has(e.digest, e.size) {
				return nil, fmt.Errorf("reading snapshot %s: the content of %s is missing or damaged (nothing was changed)", id, e.path)
			}
		}
	}
	return m, nil
}

// put makes the folder f what c says. present is what it is now; nil: nothing that is there is known.
func (s Store) put(ctx context.Context, f Folder, c, present *contents) error {
	root, err := workspace.OpenFolder(f.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &outlet{
		objects: objects{dir: s.Dir}, ctx: ctx, cancel: cancel, root: root, present: present,
		below: make(map[string][]*entry), leaders: leaders(c), jobs: make(chan func(*copier), 16),
	}
	for _, e := range c.entries {
		if e.path != "" {
			o.below[dirOf(e.path)] = append(o.below[dirOf(e.path)], e)
		}
	}
	if top := c.find(""); top != nil {
		o.run(top)
	}
	if err := o.join(); err != nil {
		return fmt.Errorf("restoring %s: %w", f.Path, err)
	}
	return nil
}

// run restores the whole folder: it goes through the folders itself, and has the files made by others.
func (o *outlet) run(top *entry) {
	var workers sync.WaitGroup
	for range parallel() {
		workers.Go(func() {
			c := newCopier()
			for job := range o.jobs {
				job(c)
			}
		})
	}
	if root, err := openFolder(int(o.root.Fd()), "."); err != nil {
		o.fail("", err)
	} else {
		o.folder(&place{dir: root, e: top}, false)
	}
	close(o.jobs)
	workers.Wait()
	o.closeLate()
}

func dirOf(at string) string {
	if dir := path.Dir(at); dir != "." {
		return dir
	}
	return ""
}

// outlet brings contents out of the store, from descriptor to descriptor as the walker takes them in.
type outlet struct {
	objects
	ctx     context.Context
	cancel  context.CancelCauseFunc
	root    *os.File
	present *contents
	below   map[string][]*entry // by folder
	leaders map[string]*leader  // by path
	jobs    chan func(*copier)

	mu     sync.Mutex
	late   []*entry // folders that are closed when all is done
	errs   []error
	failed int
}

// maxErrors is how many errors are told apart.
const maxErrors = 10

// fail puts an error on record: the rest goes on, but where it can't.
func (o *outlet) fail(at string, err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed++; o.failed <= maxErrors {
		o.errs = append(o.errs, fmt.Errorf("%q: %w", at, err))
	}
	for _, hopeless := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, hopeless) {
			o.cancel(err)
		}
	}
}

func (o *outlet) join() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == 0 {
		return context.Cause(o.ctx)
	}
	if more := o.failed - maxErrors; more > 0 {
		o.errs = append(o.errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(o.errs...)
}
