package sandbox

import (
	"os"
	"path/filepath"

	"forage"
	"forage/internal/rootfs"
)

// apart refuses a secret whose source the sandbox sees, where anything inside could read
// it, or put something else in its place; and a command that it could change, which
// would run on the host.
func (p *planner) apart(b forage.Binding) error {
	file := b.Source.File
	if b.Source.Login != nil {
		file = b.Source.Login.File
	}
	for _, mount := range p.shown() {
		if file != "" && leadsInto(file, mount.Source) {
			return forage.WithHint(
				forage.Errorf(forage.ErrUsage, "secret %s: %s is in what the sandbox sees at %s", b.Secret, file, mount.Target),
				"keep it outside of the workspace and of what is mounted")
		}
		for _, word := range b.Source.Command {
			if mount.Writable && filepath.IsAbs(word) && leadsInto(word, mount.Source) {
				return forage.WithHint(
					forage.Errorf(forage.ErrUsage, "secret %s: its command runs on the host, with %s, which the sandbox can change at %s", b.Secret, word, mount.Target),
					"keep it outside of the workspace and of what is mounted")
			}
		}
	}
	return nil
}

// leadsInto says whether path, or a link on the way to what it names, is in dir.
func leadsInto(path, dir string) bool {
	const linksMax = 40 // as in Linux
	for range linksMax {
		if rootfs.Within(filepath.Clean(path), dir) {
			return true
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return false
		}
		path = filepath.Join(parent, filepath.Base(path))
		if rootfs.Within(path, dir) {
			return true
		}
		target, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(parent, target)
		}
		path = target
	}
	return false
}
