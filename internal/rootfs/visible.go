package rootfs

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// Visible says whether a command is somewhere in dirs, or where it says, in the host's view that
// spec has.
func Visible(spec forage.Spec, command string, dirs []string) bool {
	if strings.Contains(command, "/") {
		dirs, command = []string{path.Dir(command)}, path.Base(command)
	}
	for _, dir := range dirs {
		at := path.Join(dir, command)
		if slices.ContainsFunc(spec.Links, func(l forage.Link) bool { return l.Path == at }) {
			return true
		}
		for _, mount := range spec.Mounts {
			rest, ok := strings.CutPrefix(at+"/", mount.Target+"/")
			if !ok {
				continue
			}
			info, err := os.Stat(filepath.Join(mount.Source, rest))
			if err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return true
			}
		}
	}
	return false
}
