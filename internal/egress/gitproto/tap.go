package gitproto

import (
	"io"
)

// maxHeld bounds what may be parsed at once without anything being given on, in bytes. Commands take most; a part of a pack that
// long and unfolds to nothing is no pack.
const maxHeld = maxCommands + 256<<10

// tap reads a stream by the byte, never further than it is asked to, and gives
// on what has been read that way.
type tap struct {
	src io.Reader
	buf []byte // read from src: up to from given on or in out, up to next parsed, up to end not yet

	from, next, end int

	out  []byte // parsed, to be given on
	sent int    // of out
	read int64  // parsed, in all
	err  error  // of src, or that too much is held: final
}

func newTap(src io.Reader) *tap { return &tap{src: src, buf: make([]byte, 32<<10)} }

// ReadByte makes a tap something that compress/zlib reads no further than it needs.
func (t *tap) ReadByte() (byte, error) {
	if t.next == t.end {
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	b := t.buf[t.next]
	t.next++
	t.read++
	return b, nil
}

func (t *tap) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if t.next == t.end {
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, t.buf[t.next:t.end])
	t.next += n
	t.read += int64(n)
	return n, nil
}

// full reads n bytes.
func (t *tap) full(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(t, b); err != nil {
		return nil, t.why(err)
	}
	return b, nil
}

// fill reads more from src, after all of buf has been parsed.
func (t *tap) fill() error {
	t.settle()
	if t.err == nil && t.held() > maxHeld {
		t.err = unreadable
	}
	for tries := 0; t.err == nil; tries++ {
		n, err := t.src.Read(t.buf)
		t.from, t.next, t.end = 0, 0, n
		if err == nil && n == 0 && tries == 100 {
			err = io.ErrNoProgress
		}
		t.err = err
		if n > 0 {
			return nil
		}
	}
	return t.err
}

// settle moves what has been parsed to out.
func (t *tap) settle() {
	t.out = append(t.out, t.buf[t.from:t.next]...)
	t.from = t.next
}

// held is how much has been parsed and not been given on, in bytes.
func (t *tap) held() int { return len(t.out) - t.sent + t.next - t.from }

// give copies to b what has been parsed.
func (t *tap) give(b []byte) int {
	t.settle()
	n := copy(b, t.out[t.sent:])
	t.sent += n
	if t.sent == len(t.out) {
		t.out, t.sent = t.out[:0], 0
	}
	return n
}

// ended checks that nothing follows.
func (t *tap) ended() error {
	switch _, err := t.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return reason("something follows its end")
	default:
		return err
	}
}

// why is what is wrong when reading from the tap failed with err: src's own
// error, its end, or else what has been read.
func (t *tap) why(err error) error {
	switch {
	case err == nil:
		return nil
	case t.err == io.EOF && t.next == t.end:
		return endsEarly
	case t.err != nil && t.next == t.end:
		return t.err
	default:
		return unreadable
	}
}
