package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// BrokenError says where a log is not what was written.
type BrokenError struct {
	Line   int // 1 is the first; one after the last when lines are missing at the end
	Reason string
}

func (e *BrokenError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// VerifyFile reads the log at path, which may be in use, and returns how many events of its chain
// are intact. A line that was changed, removed, added or moved is a *BrokenError, and so is one
// that is missing at the end (see HeadPath).
func VerifyFile(path string) (n int, err error) {
	kept, headErr := readHeadAt(HeadPath(path)) // before the log, which may grow
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("verifying the audit log: %w", err)
	}
	defer f.Close()
	busy := inUse(f) // a line may be half written just now
	c := chain{}
	if err := c.read(f); err != nil {
		return c.events, err
	}
	switch {
	case c.half && !busy && !inUse(f):
		return c.events, c.broken(c.line, "the line is incomplete: writing it was interrupted, or its end was cut off")
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

// chain follows a log from its first line.
type chain struct {
	last   head
	line   int  // read so far
	half   bool // the last line has no end
	events int
}

func (c *chain) broken(line int, reason string) error { return &BrokenError{line, reason} }

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
	switch {
	case err != nil:
		return c.broken(c.line, err.Error())
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
