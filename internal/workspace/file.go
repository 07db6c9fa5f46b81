package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"forage"
)

// A file of a repository may be in a folder that a sandbox writes to: below a submodule, or in a repository that an agent has
// made. A FIFO or a file without an end may stand in its place, at any moment. So a name is only opened, which waits for
// nobody, and everything else is asked of what is open then.

// openFile opens what ReadFile reads.
func openFile(path string, flags int, limit int64) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	return checkFile(file, err, path, limit)
}

func checkFile(file *os.File, err error, path string, limit int64) (*os.File, fs.FileInfo, error) {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil, notRegular(path, limit)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = notRegular(path, limit)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func notRegular(path string, limit int64) error {
	return forage.Errorf(forage.ErrUnsupported, "%s is not a file of at most %d bytes", path, limit)
}

// ReadFile reads the regular file at path, if it has at most limit bytes. Anything else there is
// forage.ErrUnsupported. With unix.O_NOFOLLOW as flags so is a link.
func ReadFile(path string, flags int, limit int64) ([]byte, error) {
	file, _, err := openFile(path, flags, limit)
	if err != nil {
		return nil, err
	}
	return readAll(file, limit)
}

// ReadFileIn is ReadFile for a path below root.
func ReadFileIn(root *os.Root, path string, limit int64) ([]byte, error) {
	file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if file, _, err = checkFile(file, err, path, limit); err != nil {
		return nil, err
	}
	return readAll(file, limit)
}

// readAll reads and closes a file that had at most limit bytes a moment ago.
func readAll(file *os.File, limit int64) ([]byte, error) {
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = notRegular(file.Name(), limit)
	}
	return data, err
}

// CopyFile makes to a copy of a file that ReadFile would read, with its time.
func CopyFile(from, to string, limit int64) error {
	source, info, err := openFile(from, 0, limit)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := target.ReadFrom(io.LimitReader(source, limit+1)) // the kernel shares the blocks where the file system can
	if err == nil && n > limit {
		err = notRegular(from, limit)
	}
	return errors.Join(err, target.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// racyMargin is for how long a file has to have been left alone for its times to tell it from what is written to it next: they are as
// coarse as the clock tick, and on some file systems as seconds.
const racyMargin = 2 * time.Second

// Racy says whether what is looked at now was changed so short a time ago that another change may leave it the same times.
func Racy(changed unix.Timespec, now time.Time) bool {
	return !time.Unix(changed.Unix()).Before(now.Add(-racyMargin))
}
