package supervisor

import (
	"context"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// importPause is how long commits gather before they are brought to the host's repository.
const importPause = time.Second

// watchAfter is how long a sandbox is not watched at first. What ends sooner is looked at when it
// ends, and is spared that giving up an inotify(7) instance which has watched takes the kernel
// longer than a short command takes.
const watchAfter = time.Second

// importer brings commits to the host's repositories shortly after they were made inside. It
// watches folders of the private metadata; that says no more than that it is time to look.
type importer struct {
	parts  []forage.Workspace
	update func(context.Context, forage.Workspace)
	watch  *os.File // inotify
	pause  time.Duration
}

// newImporter watches the repositories of parts. It is nil when there is nothing to watch, or
// nothing to watch with: the caller's UID has a bounded number of inotify(7) instances, and then
// commits are imported when a command looks.
func newImporter(parts []forage.Workspace, pause time.Duration, update func(context.Context, forage.Workspace)) *importer {
	i := &importer{update: update, pause: pause}
	for _, w := range parts {
		if w.Repository != nil && !w.ReadOnly {
			i.parts = append(i.parts, w)
		}
	}
	if len(i.parts) == 0 {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	i.watch = os.NewFile(uintptr(fd), "inotify")
	if err := i.arm(); err != nil {
		i.watch.Close()
		return nil
	}
	return i
}

// arm watches the folders that are there now: git and jj make and remove them. What is watched
// already stays so.
func (i *importer) arm() error {
	conn, err := i.watch.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) {
		for _, w := range i.parts {
			for _, folder := range watched(*w.Repository) {
				_ = addWatch(int(fd), w.Repository.Dir, folder) // absent, or replaced by something else: not watched
			}
			if w.Mode == forage.WorkspaceWorktree && w.Repository.Kind == forage.RepositoryGit { // the user's branches are shown inside
				_ = addWatch(int(fd), w.Repository.Store, ".")
				_ = addWatch(int(fd), w.Repository.Store, "refs/heads")
			}
		}
	})
}

// watched are the folders that a commit changes, relative to Dir. Agents commit on branches of
// their own, whose folders come and go: whatever moves what is checked out, git locks HEAD for it
// or logs it.
func watched(r forage.Repository) []string {
	if r.Kind == forage.RepositoryJJ {
		return []string{"jj/repo/op_heads/heads"}
	}
	folders := []string{"git", "git/logs", "git/refs/heads"}
	for dir := path.Dir(r.Head); dir != "." && dir != "/"; dir = path.Dir(dir) {
		folders = append(folders, path.Join("git/refs/heads", dir))
	}
	return folders
}

// addWatch watches a folder below root, which was written inside: no link is followed.
func addWatch(inotify int, root, folder string) error {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := hostile.OpenBelow(dir, folder, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(inotify, fmt.Sprintf("/proc/self/fd/%d", fd),
		unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR)
	return err
}

// run imports until ctx is done. However much happens inside, it looks at most once in a pause.
func (i *importer) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { i.watch.Close() })
	defer func() {
		if stop() {
			i.watch.Close()
		}
	}()
	events := make([]byte, 64<<10)
	pause := i.pause
	for {
		if _, err := i.watch.Read(events); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := i.arm(); err != nil {
			return
		}
		began := time.Now()
		i.look(ctx)
		pause = max(i.pause, idleShare*time.Since(began))
	}
}

// idleShare is how many times longer than an import nothing is imported after it: one that fails,
// as long as the agent wants it to take, is tried again with every commit.
const idleShare = 9

// look imports what there is.
func (i *importer) look(ctx context.Context) {
	for _, w := range i.parts {
		i.update(ctx, w)
	}
}

// importCommits has commits imported as long as the sandbox lives.
func (s *Sandbox) importCommits() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchAfter):
		}
		if i := newImporter(s.setup.Plan.Workspaces(), importPause, s.setup.Workspaces.update); i != nil {
			i.look(ctx) // what was made before it was watched
			i.run(ctx)
		}
	}()
	s.undo.add("the import of commits", func() error {
		cancel()
		<-ended
		return nil
	})
}

// update brings one part up to date. What hinders it will hinder the next look as well, and is told
// then.
func (w Workspaces) update(ctx context.Context, part forage.Workspace) {
	if w.Places == (workspace.Places{}) {
		return
	}
	provider, err := w.New(part.Mode)
	if err != nil {
		return
	}
	ctx, cancel := deadline.Within(ctx, deadline.Progress, "the import")
	defer cancel()
	_, _ = provider.Update(ctx, part)
}
