package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"forage/internal/tail"
)

// Filter chooses events; the zero Filter takes all.
type Filter struct {
	Denied bool      // only what was denied
	Kind   Kind      // only this kind; "" is every kind
	Since  time.Time // only what happened then or later
}

// Match says whether e is chosen.
func (f Filter) Match(e Event) bool {
	return (!f.Denied || e.Verdict == "deny") && (f.Kind == "" || e.Kind == f.Kind) && !e.Time.Before(f.Since)
}

// EventsOf reads the events of the log at path, in order, up to its end, holding one at a time. A
// line that is no event (see VerifyFile) is left out. The error, if any, is that of reading.
func EventsOf(path string, filter Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		log, err := os.Open(path)
		if err != nil {
			yield(Event{}, fmt.Errorf("reading the audit log: %w", err))
			return
		}
		defer log.Close()
		err = newLineReader(log).each(filter, func(e Event) error {
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(Event{}, err)
		}
	}
}

// Follow gives the events of the log at path to yield, those that are there and then each one as
// it is written, until ctx is done (nil), the log is removed (nil) or yield returns an error (that
// error). It sleeps in between. A log that is cut or replaced by another meanwhile is read from its
// beginning.
func Follow(ctx context.Context, path string, filter Filter, yield func(Event) error) error {
	err := tail.File(ctx, path, func(file *os.File, _ bool) (func() error, error) {
		lines := newLineReader(file)
		return func() error { return lines.each(filter, yield) }, nil
	})
	if err != nil {
		return fmt.Errorf("following the audit log: %w", err)
	}
	return nil
}

// lineReader reads events from a file that may grow.
type lineReader struct {
	r       *bufio.Reader
	partial []byte
	skip    bool // inside a line that is longer than any event
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 8<<10)}
}

// errEnough is the error of a yield that wants no more.
var errEnough = errors.New("enough")

// each gives the events that are there now, in whole lines, to yield. The error is yield's, or that
// of reading.
func (l *lineReader) each(filter Filter, yield func(Event) error) error {
	for {
		piece, err := l.r.ReadSlice('\n')
		if !l.skip {
			l.partial = append(l.partial, piece...)
		}
		if len(l.partial) > maxLine {
			l.partial, l.skip = l.partial[:0], true
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("reading the audit log: %w", err)
		}
		var e Event
		decoded := !l.skip && json.Unmarshal(bytes.TrimSpace(l.partial), &e) == nil
		l.partial, l.skip = l.partial[:0], false
		if decoded && filter.Match(e) {
			if err := yield(e); err != nil {
				return err
			}
		}
	}
}
