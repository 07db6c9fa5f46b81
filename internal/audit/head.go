package audit

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
