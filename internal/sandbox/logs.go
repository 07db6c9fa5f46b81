package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/tail"
)

// LogOptions says what Logs shows.
type LogOptions struct {
	Lines  int  // at most so many from the end; negative is all
	Follow bool // go on until the context or the sandbox ends
	Raw    bool // the bytes as they are
	// Bell, if set, gets a BEL when the agent begins to wait or ends, where the user wants that.
	Bell io.Writer
}

// Logs writes the output of the agent's window to w: what a program draws as the text that a
// terminal would show, and escaped. Raw output is as the agent wrote it.
func (s *Service) Logs(ctx context.Context, name string, opts LogOptions, w io.Writer) error {
	record, err := s.Store.Load(name)
	if err != nil {
		return err
	}
	path := s.Places.Of(name).Log
	if opts.Follow {
		return s.followLog(ctx, record, path, opts, w)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no session has written anything yet
	}
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer file.Close()
	if _, err := printLog(ctx, file, opts, w); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	return nil
}

// printLog prints what is in file now, and returns what goes on with the rest.
func printLog(ctx context.Context, file *os.File, opts LogOptions, w io.Writer) (io.Writer, error) {
	var rest io.Writer = w
	if !opts.Raw {
		drawn, err := drawLog(ctx, file, w)
		if err != nil {
			return nil, err
		}
		if drawn.screen.Drawn {
			drawn.shown = drawn.screen.Lines()
			from := 0
			if opts.Lines >= 0 {
				from = max(0, len(drawn.shown)-opts.Lines)
			}
			for from < len(drawn.shown) && strings.TrimSpace(drawn.shown[from]) == "" { // it began with an empty window
				from++
			}
			return drawn, drawn.print(drawn.shown[from:])
		}
		rest = drawn
		w = drawn.plain
	}
	end, err := seekLines(file, opts.Lines)
	if err != nil {
		return nil, err
	}
	_, err = io.CopyN(w, file, end)
	return rest, err
}

// followLog goes on until ctx or the sandbox ends.
func (s *Service) followLog(ctx context.Context, record store.Record, path string, opts LogOptions, w io.Writer) error {
	name := record.Name
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		supervisor.WaitGone(s.Places.Of(name).Dir)
		cancel()
	}()
	var rest io.Writer
	err := tail.File(ctx, path, func(file *os.File, again bool) (func() error, error) {
		if !again {
			var err error
			if rest, err = printLog(ctx, file, opts, w); err != nil {
				return nil, err
			}
			if opts.Bell != nil && s.Config.Notify.Bell {
				rest = io.MultiWriter(rest, bell(record, opts.Bell))
			}
		}
		return func() error { _, err := io.Copy(rest, file); return err }, nil
	})
	if drawn, ok := rest.(*drawnLog); ok && err == nil {
		err = drawn.rest()
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("following the log: %w", err)
	}
	return nil
}

// seekLines moves file to where its last n lines begin, and returns how much there is from there
// on.
func seekLines(file *os.File, n int) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return 0, err
	}
	if n < 0 {
		_, err = file.Seek(0, io.SeekStart)
		return end, err
	}
	const chunk = 64 << 10
	buffer := make([]byte, chunk)
	for pos, seen := end, 0; pos > 0; {
		size := min(pos, chunk)
		pos -= size
		if _, err := file.ReadAt(buffer[:size], pos); err != nil {
			return 0, err
		}
		for rest := buffer[:size]; ; {
			at := bytes.LastIndexByte(rest, '\n')
			if at < 0 {
				break
			}
			if newline := pos + int64(at); newline != end-1 { // the last line's own end does not count
				if seen++; seen == n {
					_, err := file.Seek(newline+1, io.SeekStart)
					return end - newline - 1, err
				}
			}
			rest = rest[:at]
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return end, err
}
