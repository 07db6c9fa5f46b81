package native

import (
	"encoding/binary"
	"errors"
	"math"
)

// The boot frame's blob is written and read by hand: encoding/json spends, in a process
// that has just begun, as much time on it as the network's set-up takes. Numbers are
// varints, texts have their length first, lists their count. Both ends are the same
// program, so there are no versions.

// errCut says that a blob is not one that writer has made.
var errCut = errors.New("the boot frame is cut off")

type writer struct{ b []byte }

func (w *writer) number(n int64) { w.b = binary.AppendVarint(w.b, n) }

func (w *writer) text(s string) {
	w.number(int64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) bytes(b []byte) {
	w.number(int64(len(b)))
	w.b = append(w.b, b...)
}

// flags writes up to 62 booleans as one number.
func (w *writer) flags(list ...bool) {
	n := int64(0)
	for i, set := range list {
		if set {
			n |= 1 << i
		}
	}
	w.number(n)
}

// reader reads what writer wrote. After the first error everything is empty.
type reader struct {
	b   []byte
	err error
}

func (r *reader) number() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	if n < 0 || n > int64(len(r.b)) {
		r.fail()
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// count reads the length of a list, each item of which takes at least one byte.
func (r *reader) count() int {
	n := r.number()
	if n < 0 || n > int64(len(r.b)) || n > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) flags(list ...*bool) {
	n := r.number()
	for i, flag := range list {
		*flag = n>>i&1 != 0
	}
}

func (r *reader) fail() { r.b, r.err = nil, errCut }

// list reads a list whose items read reads.
func list[T any](r *reader, read func(*reader) T) []T {
	n := r.count()
	if n == 0 {
		return nil
	}
	items := make([]T, 0, n)
	for range n {
		items = append(items, read(r))
	}
	return items
}

// writeList writes items, each with write.
func writeList[T any](w *writer, items []T, write func(*writer, T)) {
	w.number(int64(len(items)))
	for _, item := range items {
		write(w, item)
	}
}
