package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"forage"
)

// Resolved is path without links, as far as it exists.
func Resolved(path string) string {
	if path == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Resolved(parent), filepath.Base(path))
}

// Free refuses places that are taken.
func Free(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is there already", path),
				"choose another name for the sandbox; `forage-ctl gc` finds what a sandbox left behind")
		}
	}
	return nil
}
