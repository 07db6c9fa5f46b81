package rootfs

import "strings"

// tooWide says whether a folder holds more than a package: the root, anything
// right below it, and homes.
func tooWide(dir string) bool {
	if strings.Count(dir, "/") < 2 {
		return true
	}
	return Within(dir, "/home") && strings.Count(dir, "/") == 2
}
