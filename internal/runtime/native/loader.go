package native

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"strings"

	"forage"
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
	for _, dir := range lower {
		if holds(dir, loader) {
			return nil
		}
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

// holds says whether path leads to something in the root filesystem at dir.
func holds(dir, path string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Stat(strings.TrimPrefix(path, "/"))
	return err == nil
}
