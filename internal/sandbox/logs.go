package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"forage"

	"forage/internal/agent"
	"forage/internal/deadline"
	"forage/internal/screen"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/tail"
	"forage/internal/term"
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
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return err
	}
	path := s.Host.Places.Of(name).Log
	if opts.Follow {
		return cmp.Or(s.followLog(ctx, record, path, opts, w), context.Cause(ctx))
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
		supervisor.WaitGone(s.Host.Places.Of(name).Dir)
		cancel()
	}()
	var rest io.Writer
	err := tail.File(ctx, path, func(file *os.File, again bool) (func() error, error) {
		if !again {
			var err error
			if rest, err = printLog(ctx, file, opts, w); err != nil {
				return nil, err
			}
			if opts.Bell != nil && s.Host.Config.Notify.Bell {
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
// on. Negative is all.
func seekLines(file *os.File, n int) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return 0, err
	}
	starts, at := []int64{0}, int64(0)
	for lines := bufio.NewReaderSize(io.NewSectionReader(file, 0, end), 64<<10); n > 0 && err == nil; {
		var piece []byte
		piece, err = lines.ReadSlice('\n')
		if at += int64(len(piece)); errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		} else if err == nil && at < end {
			starts = append(starts[max(0, len(starts)-n+1):], at)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	from, err := file.Seek(starts[0], io.SeekStart)
	return end - from, err
}

// Bounds of what is drawn: bytes from the end of a log.
const (
	maxDrawn = 2 << 20
)

// The size of the agent's window, until the log says another.
const (
	drawnColumns = 200
	drawnRows    = 50
)

// restTime is how long a screen is left alone before it is printed while it is followed.
const restTime = 500 * time.Millisecond

// drawnLog prints what is written to it: line after line, until something is drawn. From then on it
// prints lines that have scrolled away, and what else the screen shows whenever it has come to
// rest.
type drawnLog struct {
	screen *screen.Screen
	plain  io.Writer // prints what is not drawn
	out    io.Writer

	mu    sync.Mutex
	shown []string // what was printed, from screen's first line on
	gone  int      // screen.Dropped, of then
	timer *time.Timer
}

// drawLog draws what is in file now.
func drawLog(ctx context.Context, file *os.File, out io.Writer) (*drawnLog, error) {
	d := &drawnLog{screen: screen.New(drawnColumns, drawnRows), plain: term.NewWriter(out), out: out}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, end-maxDrawn)
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "drawing it")
	defer cancel()
	buffer := make([]byte, 16<<10)
	for part := io.NewSectionReader(file, from, end-from); ; {
		n, err := part.Read(buffer)
		if err == io.EOF {
			return d, nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == context.DeadlineExceeded {
			err = forage.WithHint(forage.Errorf(forage.ErrRefused, "drawing it takes longer than %v", deadline.Answer), "--raw shows the bytes")
		}
		if err != nil {
			return nil, err
		}
		d.screen.Write(buffer[:n])
	}
}

// Write draws or prints p.
func (d *drawnLog) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.screen.Drawn {
		before := d.screen.Lines()
		d.screen.Write(p)
		if !d.screen.Drawn {
			return d.plain.Write(p)
		}
		d.shown, d.gone = before, d.screen.Dropped
	} else {
		d.screen.Write(p)
	}
	if err := d.show(d.screen.Above()); err != nil {
		return 0, err
	}
	if d.timer == nil {
		d.timer = time.AfterFunc(restTime, func() { _ = d.rest() })
	}
	d.timer.Reset(restTime)
	return len(p), nil
}

// rest prints what the screen shows now.
func (d *drawnLog) rest() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.screen.Drawn {
		return nil
	}
	return d.show(len(d.screen.Lines()))
}

// show prints the first n lines, from the first on that is not as it was printed.
func (d *drawnLog) show(n int) error {
	now := d.screen.Lines()
	now = now[:min(n, len(now))]
	d.shown = d.shown[min(d.screen.Dropped-d.gone, len(d.shown)):]
	d.gone = d.screen.Dropped
	same := 0
	for same < len(now) && same < len(d.shown) && now[same] == d.shown[same] {
		same++
	}
	if same == len(now) {
		return nil
	}
	d.shown = now
	return d.print(now[same:])
}

func (d *drawnLog) print(lines []string) error {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(term.Escape(line) + "\n")
	}
	_, err := io.WriteString(d.out, b.String())
	return err
}

// bellPause is how long a bell is still after it has rung.
const bellPause = 5 * time.Second

// bell rings w when what is written to it says that the agent waits after it has worked, or has
// ended.
func bell(record store.Record, w io.Writer) io.Writer {
	var known agent.Agent
	if argv := record.Plan.Spec.Command; len(argv) > 0 {
		known, _ = agent.Lookup(argv[0])
	}
	worked, last := false, time.Time{}
	return &agent.Watcher{Activity: known.Activity, Changed: func(state string, ended bool) {
		if now := time.Now(); (ended || worked && state == agent.Waiting) && now.Sub(last) > bellPause {
			last = now
			_, _ = io.WriteString(w, "\a") // a terminal that has gone hears nothing
		}
		worked = state == agent.Working
	}}
}

// ring rings the user's terminal while ctx lasts, if the user wants that.
func (s *Service) ring(ctx context.Context, record store.Record, w io.Writer) {
	if s.Host.Config == nil || !s.Host.Config.Notify.Bell || w == nil {
		return
	}
	options := LogOptions{Lines: 0, Follow: true, Raw: true, Bell: w}
	go func() { _ = s.followLog(ctx, record, s.Host.Places.Of(record.Name).Log, options, io.Discard) }()
}
