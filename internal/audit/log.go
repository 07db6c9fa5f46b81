package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// maxSize bounds a log with its segments, because what writes it may be driven
// from inside a sandbox. A full log refuses events, which denies what they are about.
const (
	maxSize     = 512 << 20
	segmentSize = 64 << 20
)

// Log is a sandbox's audit log, open for appending. One process at a time
// holds it. It is safe for concurrent use.
type Log struct {
	path    string
	sandbox string
	now     func() time.Time
	sleep   func(time.Duration)
	pace    *rate.Limiter

	mu       sync.Mutex
	file     *os.File
	head     *os.File
	size     int64 // of file
	before   int64 // of the segments
	segments int   // the number of the last
	limit    int64 // of size and before
	rotateAt int64 // the size at which file is put aside
	last     head
	line     []byte // what the last one was put together in
	broken   error  // once a line could be neither written nor taken back
}

// Open opens the log at path, making it (0600) if it is absent, and continues
// its chain. Half a line at its end, left by a process or machine that died while writing, is
// cut off. Another process that holds the log is an error.
func Open(path, sandbox string) (*Log, error) {
	l := &Log{
		path: path, sandbox: sandbox, now: time.Now, sleep: time.Sleep, pace: newPace(),
		limit: maxSize, rotateAt: segmentSize,
	}
	if err := l.open(path); err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", errors.Join(err, l.closeFiles()))
	}
	return l, nil
}

func (l *Log) open(path string) (err error) {
	if l.file, err = openPrivate(path, os.O_APPEND); err != nil {
		return err
	}
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s is in use: %w", path, err)
	}
	if l.head, err = openPrivate(HeadPath(path), 0); err != nil {
		return err
	}
	return l.resume()
}

// openPrivate opens a regular file of our own for reading and writing, never through a link.
func openPrivate(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// resume finds the end of the chain.
func (l *Log) resume() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	last, end, err := lastEvent(l.file, info.Size())
	if err != nil {
		return err
	}
	if l.size = end; end < info.Size() {
		if err := l.file.Truncate(end); err != nil {
			return err
		}
	}
	if err := l.resumeSegments(info, &last); err != nil {
		return err
	}
	kept, err := readHead(l.head)
	if err != nil {
		return err
	}
	if l.last = last; kept.seq > last.seq {
		l.last = kept // lines are missing at the end: the gap stays visible in the chain
	}
	return nil
}

// resumeSegments counts what was put aside; the last event is there when the
// log, which is info, has none.
func (l *Log) resumeSegments(info os.FileInfo, last *head) error {
	before, err := segments(l.path, info)
	if err != nil || len(before) == 0 {
		return err
	}
	for _, s := range before {
		l.before += s.info.Size()
	}
	newest := before[len(before)-1]
	l.segments = newest.n
	if last.seq > 0 {
		return nil
	}
	f, err := os.Open(newest.path)
	if err != nil {
		return err
	}
	defer f.Close()
	*last, _, err = lastEvent(f, newest.info.Size())
	return err
}

// Record appends e. When it returns an error the event is not in the log, and
// what it is about must not go on.
func (l *Log) Record(e Event) error {
	e = bounded(e)
	if e.Sandbox == "" {
		e.Sandbox = l.sandbox
	}
	written, err := l.record(e)
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	if paced(e) {
		if pause := l.pauseFor(written); pause > 0 {
			l.sleep(pause)
		}
	}
	return nil
}

// record returns how many bytes it wrote.
func (l *Log) record(e Event) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size >= l.rotateAt && l.broken == nil {
		if err := l.rotateLocked(); err != nil {
			l.rotateAt = l.size + segmentSize // what can't be put aside grows, up to the limit
		}
	}
	before := l.size
	err := l.recordLocked(e)
	return l.size - before, err
}

// recordLocked writes the line of e in one piece.
func (l *Log) recordLocked(e Event) error {
	if l.broken != nil {
		return l.broken
	}
	e.Seq, e.Prev, e.Time = l.last.seq+1, l.last.hash, l.now().UTC()
	line, err := appendLine(l.line[:0], &e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	l.line = line
	if l.before+l.size+int64(len(line)) > l.limit {
		return fmt.Errorf("it has reached its limit of %d bytes; stop the sandbox and move it away, with its segments and its head file, to begin another", l.limit)
	}
	if n, err := l.file.Write(line); err != nil {
		return l.takeBackLocked(int64(n), err)
	}
	next := head{e.Seq, e.Hash}
	if err := next.write(l.head); err != nil {
		return l.takeBackLocked(int64(len(line)), err)
	}
	l.size += int64(len(line))
	l.last = next
	return nil
}

// takeBackLocked removes the n bytes of a line that could not be recorded.
// When that fails too, the log is over.
func (l *Log) takeBackLocked(n int64, err error) error {
	if n > 0 {
		if undo := l.file.Truncate(l.size); undo != nil {
			err = errors.Join(err, undo)
			l.broken = err
		}
	}
	return err
}

// Close ends the log. Recording to it afterwards is an error.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	l.broken = errors.New("it is closed")
	return l.closeFiles()
}

func (l *Log) closeFiles() error {
	var errs []error
	for _, f := range []**os.File{&l.file, &l.head} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}
