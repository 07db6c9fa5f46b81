package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/autorun"

	"golang.org/x/sys/unix"
)

// QuarantineOptions say what Quarantine moves aside.
type QuarantineOptions struct {
	// All: also what is executed only by a build, a push or when it is started by name. Without it,
	// only what is met on the way, and no repository that was there before.
	All bool
	// Paths choose findings, or folders with findings in them, relative to the workspace; All has
	// no meaning then.
	Paths []string
}

// Quarantined is one thing that was moved aside, or could not be.
type Quarantined struct {
	Finding
	To    string `json:"to,omitempty"`    // on the host
	Error string `json:"error,omitempty"` // why it is where it was
}

// ended is what Quarantine needs to know of a run after it has ended.
type ended struct {
	Plan   forage.Plan // its workspaces only
	Before Baselines
}

// Quarantine moves findings out of a workspace, into a folder of ours. It deletes nothing. The
// sandbox may be running: its agent can keep Quarantine from moving something, but can't lead it
// out of the workspace. The name may be that of a run that has ended.
func (k *Keeper) Quarantine(ctx context.Context, name string, options QuarantineOptions) ([]Quarantined, error) {
	plan, before, err := k.lookedAt(name)
	if err != nil {
		return nil, err
	}
	found, err := k.findings(ctx, plan, before)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(found, before, plan, options)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	aside := filepath.Join(k.quarantineDir(name), time.Now().UTC().Format("20060102T150405.000000000Z"))
	far := newFarBudget()
	var moved []Quarantined
	var failed []error
	for _, h := range chosen {
		m := Quarantined{Finding: h}
		part := cmp.Or(h.Part, workspace.Main)
		if m.To, err = moveAside(ctx, partPath(plan, h.Part), h.Path, filepath.Join(aside, part), far); err != nil {
			m.Error = err.Error()
			failed = append(failed, fmt.Errorf("moving %q aside: %w", h.Path, err))
		}
		moved = append(moved, m)
	}
	return moved, errors.Join(failed...)
}

func (k *Keeper) quarantineDir(name string) string {
	return filepath.Join(k.Places.State, "quarantine", name)
}

// endedFile holds the ended of a run.
func (k *Keeper) endedFile(name string) string {
	return filepath.Join(k.Places.State, "quarantine", name+".json")
}

// keepEnded writes down what was in the user's own folders before a run, for Quarantine. Trees that
// Forage made go with the run.
func (k *Keeper) keepEnded(plan forage.Plan, before Baselines) error {
	e := ended{Plan: forage.Plan{Name: plan.Name, Workspace: plan.Workspace, Parts: plan.Parts}, Before: before}
	return store.WriteJSON(k.endedFile(plan.Name), e)
}

// lookedAt are the workspaces of a sandbox, or of a run that has ended, and what was in them
// before.
func (k *Keeper) lookedAt(name string) (forage.Plan, Baselines, error) {
	record, err := k.Store.Load(name)
	if err == nil && !record.Plan.Ephemeral {
		before, err := k.Looked(name)
		return record.Plan, before, err
	}
	var e ended
	if readErr := store.ReadJSON(k.endedFile(name), &e); readErr == nil {
		return e.Plan, e.Before, nil
	} else if !errors.Is(readErr, fs.ErrNotExist) {
		return forage.Plan{}, nil, readErr
	}
	if err == nil {
		err = forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is a run that has not ended", name), "its findings are shown when it has")
	}
	return forage.Plan{}, nil, err
}

func partPath(plan forage.Plan, part string) string {
	for _, w := range plan.Parts {
		if w.Name == part {
			return w.Path
		}
	}
	return plan.Workspace.Path
}

// choose returns the findings that the options ask for.
func choose(found []Finding, before Baselines, plan forage.Plan, options QuarantineOptions) ([]Finding, error) {
	if len(options.Paths) > 0 {
		return findingsAt(found, options.Paths)
	}
	return slices.DeleteFunc(found, func(h Finding) bool {
		_, known := before[cmp.Or(h.Part, plan.Workspace.Name)][h.Path]
		switch h.Kind {
		case autorun.KindRepository: // one that was there before is the user's: it is moved only when it is named with Paths
			return known
		case autorun.KindUnseen:
			return true
		}
		return !options.All && !h.Immediate
	}), nil
}

// findingsAt are the findings at or below those paths. A path without one is an error: it would be
// taken for safe.
func findingsAt(found []Finding, paths []string) ([]Finding, error) {
	var chosen []Finding
	for _, p := range paths {
		p = path.Clean(filepath.ToSlash(p))
		any := false
		for _, h := range found {
			if h.Path != p && !plan.Below(h.Path, p) {
				continue
			}
			any = true
			if !slices.Contains(chosen, h) {
				chosen = append(chosen, h)
			}
		}
		if !any {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "nothing at %q is new or changed that host tools would execute", p),
				"paths are relative to the workspace, as `forage-ctl status` shows them")
		}
	}
	return chosen, nil
}

// moveAside moves what is at rel below the workspace root to the same path below aside, a folder of
// ours, and returns where it is then. root is hostile, and changes: no link in it is followed.
func moveAside(ctx context.Context, root, rel, aside string, far *farBudget) (string, error) {
	if rel == "." || path.Clean(rel) != rel || path.IsAbs(rel) {
		return "", forage.Errorf(forage.ErrRefused, "%q can't be moved", rel)
	}
	top, err := workspace.OpenFolder(root)
	if err != nil {
		return "", err
	}
	defer top.Close()
	source, err := openParent(top, rel)
	if err != nil {
		return "", err
	}
	defer source.Close()
	target, err := makeParent(aside, rel)
	if err != nil {
		return "", err
	}
	defer target.Close()
	name := path.Base(rel)
	err = unix.Renameat2(int(source.Fd()), name, int(target.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EXDEV) {
		err = moveFar(ctx, source, name, filepath.Join("/proc/self/fd", strconv.Itoa(int(target.Fd())), name), far)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(aside, rel), nil
}

// makeParent makes and opens the folder below aside that rel belongs in. Links that were moved
// there before are not followed.
func makeParent(aside, rel string) (*os.File, error) {
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(aside)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(rel), 0o700); err != nil {
		return nil, err
	}
	top, err := os.Open(aside)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return openParent(top, rel)
}

// openParent opens the folder that rel is in below top, through no link.
func openParent(top *os.File, rel string) (*os.File, error) {
	fd, err := hostile.OpenBelow(int(top.Fd()), path.Dir(rel), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("opening its folder: %w", err)
	}
	return os.NewFile(uintptr(fd), path.Dir(rel)), nil
}

// farBudget bounds what one quarantine copies to another file system: holes in a file cost its
// maker nothing, and the copy everything.
type farBudget struct {
	bytes   int64
	entries int
}

func newFarBudget() *farBudget { return &farBudget{bytes: 8 << 30, entries: 1_000_000} }

// maxFarDepth bounds how deep a folder may be that is copied: each on the way is open meanwhile.
const maxFarDepth = 200

// moveFar moves to another file system: what is at name gets a name that means nothing to any tool
// at once, is copied, and only then removed. Of what can't be copied whole nothing is left at to.
func moveFar(ctx context.Context, dir *os.File, name, to string, left *farBudget) error {
	harmless := ".forage-quarantine-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := unix.Renameat2(int(dir.Fd()), name, int(dir.Fd()), harmless, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if err := left.copy(ctx, int(dir.Fd()), harmless, to, 0); err != nil {
		return errors.Join(fmt.Errorf("copying: %w (it is called %s now)", err, harmless), hostile.RemoveAll(to))
	}
	return hostile.RemoveAt(int(dir.Fd()), harmless, nil)
}

// copy copies a file, link or folder of dir to the new path to. Sockets and FIFOs have nothing in
// them, and are left out. What is none of these is an error: it would be lost.
func (b *farBudget) copy(ctx context.Context, dir int, name, to string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if b.entries--; b.entries < 0 || depth > maxFarDepth {
		return forage.Errorf(forage.ErrRefused, "there are too many files or folders to copy them to another file system")
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return err
		}
		return os.Symlink(string(buf[:n]), to)
	case unix.S_IFREG:
		return b.copyFile(ctx, dir, name, to)
	case unix.S_IFDIR:
		return b.copyFolder(ctx, dir, name, to, depth)
	case unix.S_IFIFO, unix.S_IFSOCK:
		return nil
	default:
		return forage.Errorf(forage.ErrRefused, "%q is neither a file, a folder nor a link", name)
	}
}

func (b *farBudget) copyFile(ctx context.Context, dir int, name, to string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(fd), name)
	defer from.Close()
	info, err := from.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return forage.Errorf(forage.ErrRefused, "%q is no file any more", name)
	case info.Size() > b.bytes:
		return forage.Errorf(forage.ErrRefused, "%q is too large to copy it to another file system", name)
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode()&0o755|0o400)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	n, err := io.Copy(file, io.LimitReader(from, info.Size())) // what is added meanwhile has a writer still
	b.bytes -= n
	if !stop() {
		return context.Cause(ctx)
	}
	return errors.Join(err, file.Close())
}

func (b *farBudget) copyFolder(ctx context.Context, dir int, name, to string, depth int) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for {
		names, err := folder.Readdirnames(1024)
		for _, inner := range names {
			if err := b.copy(ctx, fd, inner, filepath.Join(to, inner), depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
