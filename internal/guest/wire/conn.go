package wire

import (
	"bufio"
	"net"
)

// Buffered makes reads from conn few: the SSH library reads a peer's version
// byte by byte, and every packet's length on its own.
func Buffered(conn net.Conn) net.Conn {
	return &buffered{Conn: conn, reader: bufio.NewReaderSize(conn, readSize)}
}

// readSize is the SSH library's own buffer: larger reads then pass this one by.
const readSize = 4 << 10

type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }
