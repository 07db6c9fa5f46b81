package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"time"
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

// Events reads the events of a log, in order, up to its end. A line that is
// no event (see Verify) is left out. The error, if any, is that of reading.
func Events(r io.Reader, filter Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := newLineReader(r)
		for {
			e, err := lines.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if filter.Match(e) && !yield(e, nil) {
				return
			}
		}
	}
}

// EventsOf reads the events of the log at path and of its segments, in order,
// holding one at a time.
func EventsOf(path string, filter Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		log, before, err := openWhole(path)
		if err != nil {
			yield(Event{}, fmt.Errorf("reading the audit log: %w", err))
			return
		}
		defer log.Close()
		for _, s := range before {
			if !eventsOfSegment(s, filter, yield) {
				return
			}
		}
		Events(log, filter)(yield)
	}
}

// eventsOfSegment returns false when yield wants no more, or reading failed.
func eventsOfSegment(s segment, filter Filter, yield func(Event, error) bool) bool {
	f, err := os.Open(s.path)
	if err != nil {
		yield(Event{}, fmt.Errorf("reading the audit log: %w", err))
		return false
	}
	defer f.Close()
	for e, err := range Events(f, filter) {
		if !yield(e, err) || err != nil {
			return false
		}
	}
	return true
}

// ReadFile is EventsOf as a list.
func ReadFile(path string, filter Filter) ([]Event, error) {
	var events []Event
	for e, err := range EventsOf(path, filter) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// lineReader reads events from a file that may grow: io.EOF means that there
// is no further whole line yet.
type lineReader struct {
	r       *bufio.Reader
	partial []byte
	skip    bool // inside a line that is longer than any event
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 8<<10)}
}

func (l *lineReader) next() (Event, error) {
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
			return Event{}, io.EOF
		case err != nil:
			return Event{}, fmt.Errorf("reading the audit log: %w", err)
		}
		var e Event
		decoded := !l.skip && json.Unmarshal(bytes.TrimSpace(l.partial), &e) == nil
		l.partial, l.skip = l.partial[:0], false
		if decoded {
			return e, nil
		}
	}
}
