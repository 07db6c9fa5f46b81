package dns

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"forage/internal/deadline"
)

// ServePacket answers what arrives at conn until it is closed.
func (j Judge) ServePacket(conn net.PacketConn) {
	buf := make([]byte, maxQuery)
	for failed := 0; failed < 100; {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of one datagram, unless it goes on
			failed++
			continue
		}
		failed = 0
		if reply := j.Reply(buf[:n]); reply != nil {
			conn.WriteTo(reply, from) // lost like any datagram: the client asks again
		}
	}
}

// ServeStream answers what arrives on one connection, until the other side
// ends it or is silent for too long. It does not close conn.
func (j Judge) ServeStream(conn net.Conn) error {
	var size [2]byte
	for {
		if err := conn.SetDeadline(time.Now().Add(deadline.Answer)); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if len(message) > maxQuery {
			return errors.New("a DNS message is too long")
		}
		if _, err := io.ReadFull(conn, message); err != nil {
			return err
		}
		reply := j.Reply(message)
		if reply == nil {
			return errors.New("not a DNS question")
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return err
		}
	}
}
