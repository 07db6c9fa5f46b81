package gitrepo

import (
	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// readSmall reads a file of at most maxPointer bytes, which no link may stand for.
func readSmall(file string) ([]byte, error) {
	return workspace.ReadFile(file, unix.O_NOFOLLOW, maxPointer)
}

// readRegular reads a file of at most limit bytes.
func readRegular(file string, limit int64) ([]byte, error) {
	return workspace.ReadFile(file, 0, limit)
}
