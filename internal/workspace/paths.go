package workspace

import "path/filepath"

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
