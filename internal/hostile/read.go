package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ReadFile reads a regular file of at most limit bytes. It waits for no FIFO. flags are more flags
// of open(2), such as unix.O_NOFOLLOW. An error does not name the file.
func ReadFile(path string, flags int, limit int64) ([]byte, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	return read(file, err, limit)
}

// ReadIn is ReadFile for a path below root.
func ReadIn(root *os.Root, path string, limit int64) ([]byte, fs.FileInfo, error) {
	file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	return read(file, err, limit)
}

func read(file *os.File, err error, limit int64) ([]byte, fs.FileInfo, error) {
	if err != nil {
		return nil, nil, Bare(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, nil, Bare(err)
	}
	var text bytes.Buffer
	text.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	n, err := text.ReadFrom(io.LimitReader(file, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return text.Bytes(), info, Bare(err)
}

// Bare is the reason of an error about a path, for a message that names the path already.
func Bare(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
