package supervisor

import (
	"os"
	"path/filepath"
	"strings"

	"forage"
)

// hasCommand says whether the root filesystem of spec has a command of that
// name on its PATH.
func hasCommand(spec forage.Spec, name string) bool {
	roots := spec.Rootfs.Lower
	if spec.Rootfs.Kind == forage.RootfsHost {
		roots = []string{"/"}
	}
	for _, root := range roots {
		for _, dir := range strings.Split(spec.Env["PATH"], ":") {
			if _, err := os.Lstat(filepath.Join(root, dir, name)); err == nil {
				return true
			}
		}
	}
	return false
}
