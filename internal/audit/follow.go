package audit

import (
	"context"
	"fmt"
	"io"
	"os"

	"forage/internal/tail"
)

// Follow gives the events of the log at path and of its segments to yield, those
// that are there and then each one as it is written, until ctx is done (nil), the log is removed
// (nil) or yield returns an error (that error). It sleeps in between. A log
// that is cut or replaced by another meanwhile is read from its beginning.
func Follow(ctx context.Context, path string, filter Filter, yield func(Event) error) error {
	f := following{path: path, filter: filter, yield: yield}
	err := tail.File(ctx, path, func(file *os.File, _ bool) (func() error, error) {
		if err := f.catchUp(file); err != nil {
			return nil, err
		}
		lines := newLineReader(file)
		return func() error { return readNew(lines, filter, yield) }, nil
	})
	if err != nil {
		return fmt.Errorf("following the audit log: %w", err)
	}
	return nil
}

type following struct {
	path   string
	filter Filter
	yield  func(Event) error
	number int // of the segment that the file that is read becomes
}

// catchUp gives what is in the segments before file, the log, and was not read as the log.
func (f *following) catchUp(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	before, err := segments(f.path, info)
	if err != nil {
		return err
	}
	read := f.number
	f.number = 1
	for _, s := range before {
		f.number = s.n + 1
		if s.n <= read {
			continue
		}
		var yieldErr error
		eventsOfSegment(s, f.filter, func(e Event, err error) bool {
			if yieldErr = err; err == nil {
				yieldErr = f.yield(e)
			}
			return yieldErr == nil
		})
		if yieldErr != nil {
			return yieldErr
		}
	}
	return nil
}

func readNew(lines *lineReader, filter Filter, yield func(Event) error) error {
	for {
		e, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if filter.Match(e) {
			if err := yield(e); err != nil {
				return err
			}
		}
	}
}
