package audit

import (
	"bytes"
	"encoding/hex"
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

// lastEvent finds the last event in the first size bytes of f, and returns the
// bytes after it: none, unless writing was interrupted.
func lastEvent(f io.ReaderAt, size int64) (last head, torn []byte, err error) {
	for window := int64(4 << 10); ; window *= 8 {
		start := max(0, size-window)
		tail := make([]byte, size-start)
		if _, err := f.ReadAt(tail, start); err != nil && err != io.EOF {
			return head{}, nil, err
		}
		if last, torn, ok := lastEventIn(tail, start == 0); ok || start == 0 {
			return last, torn, nil
		}
		if window > maxTorn {
			return head{}, nil, fmt.Errorf("its last %d bytes hold no event; move the file away to keep it, and a new one is begun", window)
		}
	}
}

// maxTorn bounds what lastEvent looks through.
const maxTorn = 16 << 20

// lastEventIn finds the last event among the whole lines of the end of a log;
// first says that the log has nothing before it.
func lastEventIn(tail []byte, first bool) (last head, torn []byte, ok bool) {
	for rest := tail; ; {
		end := bytes.LastIndexByte(rest, '\n')
		if end < 0 {
			return head{}, tail, false
		}
		start := bytes.LastIndexByte(rest[:end], '\n') + 1
		if start > 0 || first {
			if e, err := decode(rest[start:end]); err == nil {
				return head{e.Seq, e.Hash}, tail[end+1:], true
			}
		}
		if rest = rest[:start]; start == 0 {
			return head{}, tail, false
		}
	}
}
