package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
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
	if err != nil {
		return nil, err
	}
	aside := filepath.Join(k.Host.Places.State, "quarantine", name, time.Now().UTC().Format("20060102T150405.000000000Z"))
	var moved []Quarantined
	var failed []error
	for _, h := range chosen {
		m, root := Quarantined{Finding: h}, plan.Workspace.Path
		for _, w := range plan.Parts {
			if w.Name == h.Part {
				root = w.Path
			}
		}
		if m.To, err = moveAside(ctx, root, h.Path, filepath.Join(aside, cmp.Or(h.Part, workspace.Main))); err != nil {
			m.Error = err.Error()
			failed = append(failed, fmt.Errorf("moving %q aside: %w", h.Path, err))
		}
		moved = append(moved, m)
	}
	return moved, errors.Join(failed...)
}

// endedFile holds the ended of a run.
func (k *Keeper) endedFile(name string) string {
	return filepath.Join(k.Host.Places.State, "quarantine", name+".json")
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
	record, err := k.Host.Store.Load(name)
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
func moveAside(ctx context.Context, root, rel, aside string) (string, error) {
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
		err = moveFar(ctx, source, name, filepath.Join(aside, rel))
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

// moveFar moves to another file system. What is at name gets a name that means nothing to any tool
// at once; mv removes it when all is copied.
func moveFar(ctx context.Context, dir *os.File, name, to string) error {
	harmless := ".forage-quarantine-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := unix.Renameat2(int(dir.Fd()), name, int(dir.Fd()), harmless, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	from := fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), dir.Fd(), harmless)
	if _, err := hostexec.Run(ctx, hostexec.Command{Argv: []string{"mv", "-T", from, to}, Timeout: deadline.Progress}); err != nil {
		return fmt.Errorf("copying it to another file system: %w (it is called %s now)", err, harmless)
	}
	return nil
}
