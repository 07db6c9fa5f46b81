package gitproto

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
)

// object is one entry of a pack that tests make by hand.
type object struct {
	kind kind
	base string // raw: of a delta
	data []byte
}

func commitObject(message string, parents ...string) object {
	data := "tree " + strings.Repeat("2", 40) + "\n"
	for _, parent := range parents {
		data += "parent " + parent + "\n"
	}
	return object{kind: kindCommit, data: []byte(data + "author A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n" + message + "\n")}
}

func (o object) id() string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "commit %d\x00%s", len(o.data), o.data)))
}

func entryHead(kind kind, size int) []byte {
	b := []byte{byte(kind)<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(size&0x7f))
	}
	return b
}

func makePack(objects ...object) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	for _, o := range objects {
		b = append(b, entryHead(o.kind, len(o.data))...)
		b = append(b, o.base...)
		b = append(b, deflated(o.data)...)
	}
	return checksummed(b)
}

func checksummed(pack []byte) []byte {
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

// deflaters are kept, as making one costs much more than what it does with a small object.
var deflaters = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

func deflated(data []byte) []byte {
	var b bytes.Buffer
	z := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(z)
	z.Reset(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

func lateParent(parent string) object {
	o := commitObject("x")
	o.data = bytes.Replace(o.data, []byte("\ncommitter"), []byte("\nparent "+parent+"\ncommitter"), 1)
	return o
}

// sizes are what a delta begins with.
func sizes(from, to int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(from)), uint64(to))
}

// delta makes to of from, which it takes one byte of.
func delta(from, to []byte) []byte {
	b := append(sizes(len(from), len(to)), 0x90, 1) // from[0:1]
	for rest := to[1:]; len(rest) > 0; {
		n := min(len(rest), 127)
		b = append(append(b, byte(n)), rest[:n]...)
		rest = rest[n:]
	}
	return b
}

func counted(pack []byte, count uint32) []byte {
	pack = bytes.Clone(pack[:len(pack)-sha1.Size])
	binary.BigEndian.PutUint32(pack[8:], count)
	return checksummed(pack)
}

func sized(o object, size int) []byte {
	b := append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), entryHead(o.kind, size)...)
	return checksummed(append(b, deflated(o.data)...))
}

func broken(o object) []byte {
	pack := makePack(o)
	pack = pack[:len(pack)-sha1.Size]
	pack[len(pack)-1] ^= 1
	return pack
}

func withDictionary() []byte {
	var b bytes.Buffer
	z, _ := zlib.NewWriterLevelDict(&b, zlib.DefaultCompression, []byte("dictionary"))
	z.Write([]byte("d"))
	z.Close()
	return b.Bytes()
}
