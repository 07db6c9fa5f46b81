package gitrepo

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"forage"
)

// A file of a repository may be in a folder that a sandbox writes to: below a submodule, or in a repository that an agent has
// made. So nothing is asked of a name but to be opened, which waits for nobody, and all else of what is open then.

// readSmall reads a file of at most maxPointer bytes, which no link may stand for.
func readSmall(file string) ([]byte, error) { return readOpened(file, unix.O_NOFOLLOW, maxPointer) }

// readRegular reads a file of at most limit bytes.
func readRegular(file string, limit int64) ([]byte, error) { return readOpened(file, 0, limit) }

func readOpened(file string, flags int, limit int64) ([]byte, error) {
	opened, _, err := openRegular(file, flags, limit)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return io.ReadAll(io.LimitReader(opened, limit))
}

// openRegular opens a file of at most limit bytes. What else is there is forage.ErrUnsupported.
func openRegular(file string, flags int, limit int64) (*os.File, fs.FileInfo, error) {
	opened, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil, notRegular(file, limit)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := opened.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = notRegular(file, limit)
	}
	if err != nil {
		opened.Close()
		return nil, nil, err
	}
	return opened, info, nil
}

func notRegular(file string, limit int64) error {
	return forage.Errorf(forage.ErrUnsupported, "%s is not a file of at most %d bytes", file, limit)
}
