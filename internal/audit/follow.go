package audit

import (
	"context"
	"fmt"
	"io"
	"os"

	"forage/internal/follow"
)

// Follow gives the events of the log at path to yield, those that are there and
// then each one as it is written, until ctx is done (nil), the log is removed
// (nil) or yield returns an error (that error). It sleeps in between. A log
// that is cut or replaced meanwhile is read from its beginning.
func Follow(ctx context.Context, path string, filter Filter, yield func(Event) error) error {
	err := follow.File(ctx, path, func(file *os.File, _ bool) (func() error, error) {
		lines := newLineReader(file)
		return func() error { return readNew(lines, filter, yield) }, nil
	})
	if err != nil {
		return fmt.Errorf("following the audit log: %w", err)
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
