package supervisor

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"forage/internal/pipe"
)

// maxLog bounds NAME.log, in bytes; the older half of what is kept is NAME.log.1.
const maxLog = 16 << 20

// logFile takes the output of the agent's window, which may be endless: when
// the file has grown to its bound it becomes PATH.1 and a new one begins.
type logFile struct {
	path  string
	file  *os.File
	size  int64
	limit int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path, limit: maxLog}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening %s: %w", filepath.Base(l.path), err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write never splits p over two files.
func (l *logFile) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > l.limit && l.size > 0 {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, err
		}
		l.file.Close()
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) Close() error { return l.file.Close() }

// fill copies from a pipe until it ends, or all who write into it have, to the log and to what
// watches it. When the log can't be written (the disk is full) the rest is watched alone, so that
// the agent is never held up by it.
func (l *logFile) fill(r *os.File, ended <-chan struct{}, watcher io.Writer) {
	defer l.Close()
	if err := pipe.Copy(io.MultiWriter(watcher, l), r, ended); err != nil {
		pipe.Copy(watcher, r, ended)
	}
}
