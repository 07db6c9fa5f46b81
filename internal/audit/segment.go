package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A log that has grown to segmentSize is put aside as a segment, numbered from 1 on, and another is
// begun in its place: "box.audit.jsonl" becomes "box.audit.1.jsonl". The chain goes on from one to
// the next, so that the segments and the log are one log.

// SegmentPath is where the nth segment of the log at path is.
func SegmentPath(path string, n int) string {
	base, ending := splitPath(path)
	return base + "." + strconv.Itoa(n) + ending
}

// nextPath is where the log is begun that takes the place of the one at path.
func nextPath(path string) string { return path + ".next" }

func splitPath(path string) (base, ending string) {
	ending = filepath.Ext(path)
	return strings.TrimSuffix(path, ending), ending
}

// segment is a file of a log that was put aside.
type segment struct {
	n    int
	path string
	info fs.FileInfo
}

// maxMissing is how many segments may be missing before one: a full log has so many.
const maxMissing = maxSize / segmentSize

// segments are those of the log at path, in order, up to current, which may be
// put aside just now. The folder, which has the logs of all runs, is not read.
func segments(path string, current fs.FileInfo) ([]segment, error) {
	var found []segment
	for n, missing := 1, 0; missing < maxMissing; n++ {
		info, err := os.Lstat(SegmentPath(path, n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
			continue
		case err != nil:
			return nil, err
		case os.SameFile(info, current):
			return found, nil
		}
		if _, err := os.Lstat(SegmentPath(path, n-missing)); missing > 0 && err == nil {
			n, missing = n-missing-1, 0 // it was put aside meanwhile
			continue
		}
		missing = 0
		found = append(found, segment{n, SegmentPath(path, n), info})
	}
	return found, nil
}

// openWhole opens the log at path with the segments before it. The log is opened
// first: what is put aside meanwhile is then seen as what it was.
func openWhole(path string) (log *os.File, before []segment, err error) {
	if log, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	info, err := log.Stat()
	if err == nil {
		before, err = segments(path, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, before, nil
}

// rotateLocked puts the log aside as a segment and begins another. There is a
// log at its path at every moment, and it is always the one that is held.
func (l *Log) rotateLocked() error {
	next := nextPath(l.path)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := openPrivate(next, os.O_APPEND|os.O_EXCL)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(err, file.Close(), os.Remove(next))
	}
	aside := SegmentPath(l.path, l.segments+1)
	if err := os.Link(l.path, aside); err != nil && !l.isAside(aside) {
		return errors.Join(err, file.Close(), os.Remove(next))
	}
	if err := os.Rename(next, l.path); err != nil {
		return errors.Join(err, file.Close(), os.Remove(aside), os.Remove(next))
	}
	old := l.file
	l.file, l.before, l.size = file, l.before+l.size, 0
	l.segments++
	if err := old.Close(); err != nil {
		return fmt.Errorf("closing what was put aside: %w", err)
	}
	return nil
}

// isAside says whether the file that is written to is at path too.
func (l *Log) isAside(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	held, err := l.file.Stat()
	return err == nil && os.SameFile(info, held)
}
