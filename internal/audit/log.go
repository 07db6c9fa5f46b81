package audit

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// maxSize bounds a log in bytes, because what writes it may be driven from inside a sandbox. A
// full log refuses events, which denies what they are about.
const maxSize = 512 << 20

// Log is a sandbox's audit log, open for appending. One process at a time
// holds it. It is safe for concurrent use.
type Log struct {
	path    string
	sandbox string
	now     func() time.Time
	sleep   func(time.Duration)
	pace    *rate.Limiter

	mu     sync.Mutex
	file   *os.File
	head   *os.File
	size   int64
	limit  int64 // of size
	last   head
	line   []byte // what the last one was put together in
	broken error  // once a line could be neither written nor taken back
}

// Open opens the log at path, making it (0600) if it is absent, and continues
// its chain. Half a line at its end, left by a process or machine that died while writing, is
// cut off. Another process that holds the log is an error.
func Open(path, sandbox string) (*Log, error) {
	l := &Log{
		path: path, sandbox: sandbox, now: time.Now, sleep: time.Sleep, limit: maxSize,
		pace: rate.NewLimiter(pacePerSecond, paceBurst),
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
	// Finds the end of the chain.
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
	kept, err := readHead(l.head)
	if err != nil {
		return err
	}
	if l.last = last; kept.seq > last.seq {
		l.last = kept // lines are missing at the end: the gap stays visible in the chain
	}
	return nil
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

// Record appends e. When it returns an error the event is not in the log, and
// what it is about must not go on.
func (l *Log) Record(e Event) error {
	e = bounded(e)
	e.Sandbox = cmp.Or(e.Sandbox, l.sandbox)
	l.mu.Lock()
	before := l.size
	err := l.recordLocked(e)
	written := l.size - before
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	switch e.Kind {
	case DNS, Connect, HTTP, Secret:
		if e.Verdict == "deny" && !e.Monitored {
			return nil
		}
		now := l.now()
		if pause := min(l.pace.ReserveN(now, int(written)).DelayFrom(now), maxPause); pause > 0 {
			l.sleep(pause)
		}
	}
	return nil
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
	if l.size+int64(len(line)) > l.limit {
		return fmt.Errorf("it has reached its limit of %d bytes; stop the sandbox and move it away, with its head file, to begin another", l.limit)
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

// What is recorded of traffic that goes through, which something inside drives, may fill so much of
// a log at once, and then so much a second. What would fill it faster is held up, each event by
// maxPause at most: a loop of requests needs about an hour to fill a log, and work that a person
// would call busy never waits. Denials are not held up here: a change of policy, which ends
// connections, must not wait for them. Egress bounds how many there are.
const (
	paceBurst     = 64 << 20  // bytes
	pacePerSecond = 128 << 10 // bytes
	maxPause      = 5 * time.Second
)

// HeadPath is where the head of the log at path is kept: a file of one line,
// "SEQ HASH" of the last event (SEQ in 20 digits), rewritten with every event.
// A log that ends before its head was cut. It belongs to the log and is removed
// with it.
func HeadPath(path string) string { return path + ".head" }

// head names one event of a chain; the zero head is before the first.
type head struct {
	seq  uint64
	hash string
}

const headSize = 20 + 1 + 64 + 1

func (h head) write(w io.WriterAt) error {
	_, err := w.WriteAt(fmt.Appendf(nil, "%020d %s\n", h.seq, h.hash), 0)
	return err
}

// readHead reads a head file; an empty one is the zero head.
func readHead(f *os.File) (head, error) {
	text := make([]byte, headSize+1)
	n, err := f.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return head{}, err
	}
	if n == 0 {
		return head{}, nil
	}
	seq, hash, found := bytes.Cut(bytes.TrimSuffix(text[:n], []byte("\n")), []byte(" "))
	number, err := strconv.ParseUint(string(seq), 10, 64)
	if _, hexErr := hex.DecodeString(string(hash)); n != headSize || !found || err != nil || hexErr != nil {
		return head{}, fmt.Errorf("%s is damaged", f.Name())
	}
	return head{number, string(hash)}, nil
}

// lastEvent finds the last event in the first size bytes of f, and where its line ends; after
// that there is half a line at most.
func lastEvent(f io.ReaderAt, size int64) (last head, end int64, err error) {
	start := max(0, size-2*maxLine)
	tail := make([]byte, size-start)
	if _, err := f.ReadAt(tail, start); err != nil && err != io.EOF {
		return head{}, 0, err
	}
	whole := tail[:bytes.LastIndexByte(tail, '\n')+1]
	if len(whole) == 0 && len(tail) < maxLine {
		return head{}, start, nil
	}
	lines := bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	e, err := decode(lines[len(lines)-1])
	if err != nil || len(tail)-len(whole) >= maxLine {
		return head{}, 0, errors.Join(errors.New("its last line is no event; move the file away to keep it, and a new one is begun"), err)
	}
	return head{e.Seq, e.Hash}, start + int64(len(whole)), nil
}
