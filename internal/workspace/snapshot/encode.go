package snapshot

import (
	"encoding/binary"
	"errors"
	"io"
)

// encode writes a folder: its name, the number of entries, and each of them. Numbers are varints of
// encoding/binary, texts have their length in front.
func (c *contents) encode(w io.Writer) error {
	b := appendText(nil, c.name)
	b = binary.AppendUvarint(b, uint64(len(c.entries)))
	for _, e := range c.entries {
		b = e.append(b)
		if len(b) > 64<<10 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := w.Write(b)
	return err
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func (t stamp) append(b []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, t.sec), t.nsec)
}

func (e *entry) append(b []byte) []byte {
	b = append(b, byte(e.kind))
	b = appendText(b, e.path)
	b = appendText(b, e.target)
	b = binary.AppendUvarint(b, uint64(e.mode))
	b = binary.AppendUvarint(b, uint64(e.uid))
	b = binary.AppendUvarint(b, uint64(e.gid))
	b = e.mtime.append(b)
	b = binary.AppendUvarint(b, uint64(len(e.xattrs)))
	for _, x := range e.xattrs {
		b = appendText(appendText(b, x.name), x.value)
	}
	if e.kind != kindFile {
		return b
	}
	b = binary.AppendVarint(b, e.size)
	b = append(b, e.digest[:]...)
	b = binary.AppendUvarint(b, e.seen.dev)
	b = binary.AppendUvarint(b, e.seen.ino)
	b = e.seen.ctime.append(b)
	if e.racy {
		return append(b, 1)
	}
	return append(b, 0)
}

var errShort = errors.New("it ends too early")

// decoder takes values off data; after the first failure all are zero.
type decoder struct {
	data []byte
	err  error
}

func decode(data []byte) (*contents, []byte, error) {
	d := &decoder{data: data}
	c := &contents{name: d.text()}
	count := d.uvarint()
	if count > uint64(len(d.data)) { // each has a byte at least
		return nil, nil, errShort
	}
	c.entries = make([]*entry, 0, count)
	for range count {
		c.entries = append(c.entries, d.entry())
		if d.err != nil {
			break
		}
	}
	return c, d.data, d.err
}

func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.data)) {
		d.err = errShort
		return nil
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.err = errShort
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.err = errShort
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) text() string { return string(d.take(d.uvarint())) }

func (d *decoder) byte() byte {
	if b := d.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) stamp() stamp { return stamp{d.varint(), d.varint()} }

func (d *decoder) entry() *entry {
	e := &entry{
		kind: kind(d.byte()), path: d.text(), target: d.text(),
		mode: uint32(d.uvarint()), uid: uint32(d.uvarint()), gid: uint32(d.uvarint()), mtime: d.stamp(),
	}
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		e.xattrs = append(e.xattrs, xattr{d.text(), d.text()})
	}
	if e.kind == kindFile {
		e.size = d.varint()
		copy(e.digest[:], d.take(uint64(len(e.digest))))
		e.seen = identity{d.uvarint(), d.uvarint(), d.stamp()}
		e.racy = d.byte() != 0
	}
	return e
}
