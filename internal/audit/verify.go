package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// BrokenError says where a log is not what was written.
type BrokenError struct {
	File   string // name of the segment; "" is the log itself
	Line   int    // 1 is the first; one after the last when lines are missing at the end; 0: the whole segment
	Reason string
}

func (e *BrokenError) Error() string {
	where := e.File
	switch {
	case e.Line == 0:
		return where + ": " + e.Reason
	case where != "":
		where += ", "
	}
	return fmt.Sprintf("%sline %d: %s", where, e.Line, e.Reason)
}

// Verify reads a whole log and returns how many events of its chain are
// intact. A line that was changed, removed, added or moved is a *BrokenError.
func Verify(r io.Reader) (n int, err error) {
	c := chain{}
	if err := c.read(r); err != nil {
		return c.events, err
	}
	return c.events, c.end()
}

// VerifyFile is Verify of the log at path, which may be in use, with its segments, and checks also
// that nothing is missing at its end (see HeadPath).
func VerifyFile(path string) (n int, err error) {
	kept, headErr := readHeadAt(HeadPath(path)) // before the log, which may grow
	f, before, err := openWhole(path)
	if err != nil {
		return 0, fmt.Errorf("verifying the audit log: %w", err)
	}
	defer f.Close()
	c := chain{}
	if err := c.readSegments(path, before); err != nil {
		return c.events, err
	}
	if err := c.read(f); err != nil {
		return c.events, err
	}
	if c.half && !inUse(f) { // else a line may be half written just now
		if grown(f) { // it was, and its writer has ended it since, and let go of the file
			return VerifyFile(path)
		}
		err = c.end()
	}
	switch {
	case err != nil:
		return c.events, err
	case errors.Is(headErr, os.ErrNotExist):
		return c.events, c.broken(c.line+1, "the head file is missing, so the end of the log can't be checked")
	case headErr != nil:
		return c.events, fmt.Errorf("verifying the audit log: %w", headErr)
	case kept.seq > c.last.seq:
		return c.events, c.broken(c.line+1, fmt.Sprintf("events %d to %d are missing at the end", c.last.seq+1, kept.seq))
	case kept.seq == c.last.seq && kept.hash != c.last.hash:
		return c.events, c.broken(c.line, "it is not the event that was written last")
	}
	return c.events, nil
}

func readHeadAt(path string) (head, error) {
	f, err := os.Open(path)
	if err != nil {
		return head{}, err
	}
	defer f.Close()
	return readHead(f)
}

// inUse says whether a Log holds the file.
func inUse(f *os.File) bool {
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // or who opens the log would find it in use
	return false
}

// grown says whether a file that was read to its end has another one by now.
func grown(f *os.File) bool {
	read, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Size() != read
}

// chain follows a log from its first line.
type chain struct {
	last   head
	file   string // the segment that is read; "" is the log itself
	line   int    // read so far, of that
	half   bool   // the last line has no end
	events int
}

// readSegments reads what was put aside of a log.
func (c *chain) readSegments(path string, before []segment) error {
	for i, s := range before {
		c.file, c.line = filepath.Base(SegmentPath(path, i+1)), 0
		if s.n != i+1 {
			return c.broken(0, "the segment is missing")
		}
		if err := c.readSegment(s); err != nil {
			return err
		}
	}
	c.file, c.line = "", 0
	return nil
}

func (c *chain) readSegment(s segment) error {
	f, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("verifying the audit log: %w", err)
	}
	defer f.Close()
	if err := c.read(f); err != nil {
		return err
	}
	return c.end()
}

func (c *chain) broken(line int, reason string) error {
	return &BrokenError{File: c.file, Line: line, Reason: reason}
}

func (c *chain) read(r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		text, err := lines.ReadSlice('\n') // what is longer than any event is no event
		if len(text) > 0 {
			c.line++
			if err := c.add(text); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		case bufio.ErrBufferFull:
			return c.broken(c.line, "the line is longer than any event")
		default:
			return fmt.Errorf("reading the audit log: %w", err)
		}
	}
}

// add takes the next line, with its newline.
func (c *chain) add(text []byte) error {
	body, whole := bytes.CutSuffix(text, []byte("\n"))
	if !whole {
		c.half = true
		return nil
	}
	e, err := decode(body)
	if err != nil {
		return c.broken(c.line, err.Error())
	}
	switch {
	case e.Seq > c.last.seq+1:
		return c.broken(c.line, fmt.Sprintf("events %d to %d before it were removed", c.last.seq+1, e.Seq-1))
	case e.Seq != c.last.seq+1:
		return c.broken(c.line, fmt.Sprintf("event %d is not in its place, after event %d", e.Seq, c.last.seq))
	case e.Prev != c.last.hash:
		return c.broken(c.line, "it does not follow the event before it, one of the two was replaced")
	}
	c.last = head{e.Seq, e.Hash}
	c.events++
	return nil
}

// end checks that the last line is whole.
func (c *chain) end() error {
	if c.half {
		return c.broken(c.line, "the line is incomplete: writing it was interrupted, or its end was cut off")
	}
	return nil
}
