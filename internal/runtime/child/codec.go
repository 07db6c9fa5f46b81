package child

import (
	"encoding/binary"
	"errors"
)

// The boot frame's blob is written and read by hand: encoding/json spends, in a process
// that has just begun, as much time on it as the network's set-up takes. Numbers are
// varints, texts have their length first, lists their count. Both ends are the same
// program, so there are no versions.

// errCut says that a blob is not one that a codec has written.
var errCut = errors.New("the boot frame is cut off")

// codec writes what it is given pointers to, or reads it: one description is for both.
// After the first error everything that is read is empty.
type codec struct {
	b       []byte
	reading bool
	err     error
}

func (c *codec) fail() { c.b, c.err = nil, errCut }

func number[N int | int64 | uint32 | uint64](c *codec, n *N) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, int64(*n))
		return
	}
	read, size := binary.Varint(c.b)
	if size <= 0 {
		c.fail()
		return
	}
	*n, c.b = N(read), c.b[size:]
}

// count is the length of a text or list. What is read has at least one byte for each.
func (c *codec) count(n int) int {
	number(c, &n)
	if c.reading && (n < 0 || n > len(c.b)) {
		c.fail()
	}
	if c.err != nil {
		return 0
	}
	return n
}

func text[T string | []byte](c *codec, s *T) {
	n := c.count(len(*s))
	if !c.reading {
		c.b = append(c.b, *s...)
		return
	}
	*s, c.b = T(c.b[:n:n]), c.b[n:]
}

// flags are up to 62 booleans, as one number.
func (c *codec) flags(list ...*bool) {
	n := int64(0)
	for i, set := range list {
		if *set {
			n |= 1 << i
		}
	}
	number(c, &n)
	for i, set := range list {
		*set = n>>i&1 != 0
	}
}

func list[T any](c *codec, items *[]T, each func(*codec, *T)) {
	n := c.count(len(*items))
	if c.reading && n > 0 {
		*items = make([]T, n)
	}
	for i := range *items {
		each(c, &(*items)[i])
	}
}
