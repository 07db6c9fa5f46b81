package secrets

import (
	"fmt"
	"os"
	"path/filepath"

	"forage"
	"forage/internal/hostexec"
)

// Notes are what the user should know of a source before it is asked. Nothing is
// read or run for them.
func Notes(src forage.SecretSource) []string {
	switch {
	case src.File != "":
		info, err := os.Stat(src.File)
		if err == nil && info.Mode().Perm()&0o044 != 0 {
			return []string{fmt.Sprintf("%s can be read by other users of this machine: chmod 600 %[1]s", src.File)}
		}
	case len(src.Command) > 0:
		// Requests would hear of it too late that a program is not there.
		path, err := hostexec.Find(src.Command[0])
		if err != nil {
			return []string{fmt.Sprintf("the command %s is not in the system's folders: write its absolute path", src.Command[0])}
		}
		if _, err := os.Stat(path); err != nil {
			return []string{fmt.Sprintf("the command %s is not there: %v", filepath.Base(src.Command[0]), err)}
		}
		return nil
	}
	return nil
}
