package credential

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// afterMax bounds what may follow a compressed body.
const afterMax = 64 << 10

// decode makes the body of res one that is not compressed, and res one that says so.
// It is decoded as it is read, so that one which grows without end costs no memory.
func decode(res *http.Response) error {
	var codings []string
	for _, line := range res.Header["Content-Encoding"] {
		for coding := range strings.SplitSeq(line, ",") {
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	if len(codings) == 0 {
		return nil
	}
	var open func(io.Reader) (io.Reader, error)
	switch coding := strings.Join(codings, ", "); coding {
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = inflate
	default: // two, one on top of the other, too
		return &EncodedError{coding}
	}
	res.Body = &decoded{body: res.Body, open: open}
	for _, name := range [...]string{"Content-Encoding", "Content-Length", "Content-Md5", "Digest", "Content-Digest", "Accept-Ranges"} {
		delete(res.Header, name)
	}
	res.ContentLength = -1
	res.Uncompressed = true
	return nil
}

// inflate reads what "deflate" means: zlib's format, or what many servers send, without its frame.
func inflate(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	start, err := buffered.Peek(2)
	if err == nil && start[0]&0x0f == 8 && (uint(start[0])<<8|uint(start[1]))%31 == 0 { // RFC 1950, 2.2
		return zlib.NewReader(buffered)
	}
	return flate.NewReader(buffered), nil
}

// decoded opens its decoder when it is read first: that needs the beginning of the body.
type decoded struct {
	body    io.ReadCloser
	open    func(io.Reader) (io.Reader, error)
	decoder io.Reader
	err     error
}

func (d *decoded) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.decoder == nil {
		if d.decoder, d.err = d.open(d.body); d.err != nil {
			return 0, d.err
		}
	}
	n, err := d.decoder.Read(p)
	if err == io.EOF {
		err = d.rest()
	}
	d.err = err
	return n, err
}

// rest reads to the end of the body: only then its trailer is there.
func (d *decoded) rest() error {
	n, err := io.Copy(io.Discard, io.LimitReader(d.body, afterMax))
	switch {
	case err != nil:
		return err
	case n == afterMax:
		return errors.New("too much follows the compressed body")
	}
	return io.EOF
}

func (d *decoded) Close() error { return d.body.Close() }
