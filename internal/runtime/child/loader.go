package child

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
)

// checkLoader refuses a root filesystem in which our program can't be executed: a
// build that was linked with cgo (`go run` on a host with a C compiler makes one) needs
// the host's dynamic loader, and an image need not have it.
func checkLoader(program string, lower []string) error {
	loader, err := loaderOf(program)
	if err != nil {
		return fmt.Errorf("looking at the running program: %w", err)
	}
	if loader == "" {
		return nil
	}
	if holds(lower, loader) {
		return nil
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrUnsupported, "this build of forage-ctl needs %s, which the root filesystem does not have", loader),
		"build a static one with `make build`, or set CGO_ENABLED=0")
}

// loaderOf is the dynamic loader that a program names (PT_INTERP, elf(5)); "" for a static one.
func loaderOf(program string) (string, error) {
	file, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			path, err := io.ReadAll(segment.Open())
			return strings.TrimRight(string(path), "\x00"), err
		}
	}
	return "", nil
}

// Has says whether the root filesystem of spec has a program at file.
func (r *Runtime) Has(spec forage.Spec, file string) bool {
	if spec.Rootfs.Kind == forage.RootfsHost {
		return rootfs.Visible(spec, file, nil)
	}
	return holds(spec.Rootfs.Lower, file)
}

// holds says whether one of the layers has something at path. Links in them are taken as the host's
// would be.
func holds(layers []string, path string) bool {
	return slices.ContainsFunc(layers, func(dir string) bool {
		_, err := os.Lstat(filepath.Join(dir, path))
		return err == nil
	})
}
