package egress

import (
	"errors"
	"io"
	"sync"
)

// freeBody is a request's body whose Read ends when it is closed, or when the connection that it
// goes out on is. net/http waits for the Read before it says what became of a request, and ends
// the answer; the client may send no more before it hears that.
type freeBody struct {
	io.ReadCloser
	buf    []byte // of reads that may outlive the one who has asked
	got    chan read
	closed chan struct{}
	once   sync.Once
	gone   <-chan struct{} // the connection, once there is one
}

type read struct {
	n   int
	err error
}

var errGone = errors.New("the connection to the server has ended before the whole request was sent")

// maxRead is how many bytes are read at a time.
const maxRead = 8 << 10

// newFreeBody frees a body with so many bytes; -1 is not known.
func newFreeBody(body io.ReadCloser, length int64) *freeBody {
	room := maxRead
	if length >= 0 {
		room = int(min(length, maxRead-1)) + 1
	}
	return &freeBody{ReadCloser: body, buf: make([]byte, room), got: make(chan read, 1), closed: make(chan struct{})}
}

func (b *freeBody) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, errGone
	default:
	}
	buf := b.buf[:min(len(p), len(b.buf))]
	go func() {
		n, err := b.ReadCloser.Read(buf)
		b.got <- read{n, err}
	}()
	select {
	case got := <-b.got:
		return copy(p, buf[:got.n]), got.err
	case <-b.closed:
	case <-b.gone:
		b.once.Do(func() { close(b.closed) }) // for good: buf is not ours any more
	}
	return 0, errGone
}

func (b *freeBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
