package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A log that has grown to segmentSize is put aside as a segment, numbered from 1
// on, and another is begun in its place: "box.audit.jsonl" becomes "box.audit.1.jsonl". The chain goes on
// from one to the next, so that the segments and the log are one log.

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

// segments are those of the log at path, in order, up to current, which may be
// put aside just now.
func segments(path string, current fs.FileInfo) ([]segment, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	base, ending := splitPath(filepath.Base(path))
	var found []segment
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), base+".")
		if number, ok = cutSuffix(number, ending, ok); !ok {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || number != strconv.Itoa(n) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, segment{n, SegmentPath(path, n), info})
	}
	slices.SortFunc(found, func(a, b segment) int { return a.n - b.n })
	for i, s := range found {
		if os.SameFile(s.info, current) {
			return found[:i], nil
		}
	}
	return found, nil
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	rest, found := strings.CutSuffix(s, suffix)
	return rest, ok && found
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
