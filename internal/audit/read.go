package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
)

// Filter chooses events; the zero Filter takes all.
type Filter struct {
	Denied bool // only what was denied
	Kind   Kind // only this kind; "" is every kind
}

// Match says whether e is chosen.
func (f Filter) Match(e Event) bool {
	return (!f.Denied || e.Verdict == "deny") && (f.Kind == "" || e.Kind == f.Kind)
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

// ReadFile reads the events of the log at path.
func ReadFile(path string, filter Filter) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer f.Close()
	var events []Event
	for e, err := range Events(f, filter) {
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
