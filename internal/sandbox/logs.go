package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"forage/internal/follow"
	"forage/internal/supervisor"
)

// LogOptions says what Logs shows.
type LogOptions struct {
	Lines  int  // at most so many from the end; negative is all
	Follow bool // go on until the context or the sandbox ends
}

// Logs writes the output of the agent's window to w. It is untrusted: w must escape it.
func (s *Service) Logs(ctx context.Context, name string, opts LogOptions, w io.Writer) error {
	if _, err := s.Store.Load(name); err != nil {
		return err
	}
	path := s.Places.Of(name).Log
	if opts.Follow {
		return s.followLog(ctx, name, path, opts.Lines, w)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no session has written anything yet
	}
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer file.Close()
	if err := seekLines(file, opts.Lines); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	_, err = io.Copy(w, file)
	return err
}

// followLog goes on until ctx or the sandbox ends.
func (s *Service) followLog(ctx context.Context, name, path string, lines int, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		supervisor.WaitGone(s.Places.Of(name).Dir)
		cancel()
	}()
	err := follow.File(ctx, path, func(file *os.File, again bool) (func() error, error) {
		if !again {
			if err := seekLines(file, lines); err != nil {
				return nil, err
			}
		}
		return func() error { _, err := io.Copy(w, file); return err }, nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("following the log: %w", err)
	}
	return nil
}

// seekLines moves file to where its last n lines begin.
func seekLines(file *os.File, n int) error {
	if n < 0 {
		return nil
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	const chunk = 64 << 10
	buffer := make([]byte, chunk)
	for pos, seen := end, 0; pos > 0; {
		size := min(pos, chunk)
		pos -= size
		if _, err := file.ReadAt(buffer[:size], pos); err != nil {
			return err
		}
		for rest := buffer[:size]; ; {
			at := bytes.LastIndexByte(rest, '\n')
			if at < 0 {
				break
			}
			if newline := pos + int64(at); newline != end-1 { // the last line's own end does not count
				if seen++; seen == n {
					_, err := file.Seek(newline+1, io.SeekStart)
					return err
				}
			}
			rest = rest[:at]
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}
