package rootfs

import "path/filepath"

// Find is where the caller has a command that a sandbox may see: on the caller's PATH or in the
// system's folders. "" is nowhere.
func Find(command string, caller Caller) string {
	s := &toolSearch{caller: caller, path: filepath.SplitList(caller.Path + ":" + systemPath)}
	return s.lookup(command)
}
