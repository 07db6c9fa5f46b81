package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

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
