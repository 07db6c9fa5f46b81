package netns

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// batch builds netlink messages (netlink(7)), one after the other.
type batch struct {
	b     []byte
	start int // of the message being built
	seq   uint32
}

// begin starts a message; fixed is the protocol's own header.
func (m *batch) begin(kind, flags uint16, fixed []byte) {
	m.start = len(m.b)
	m.seq++
	m.b = binary.NativeEndian.AppendUint32(m.b, 0) // length, by end
	m.b = binary.NativeEndian.AppendUint16(m.b, kind)
	m.b = binary.NativeEndian.AppendUint16(m.b, unix.NLM_F_REQUEST|flags)
	m.b = binary.NativeEndian.AppendUint32(m.b, m.seq)
	m.b = binary.NativeEndian.AppendUint32(m.b, 0) // port: the kernel knows it
	m.b = append(m.b, fixed...)
	m.pad()
}

// end finishes the message that begin started.
func (m *batch) end() {
	binary.NativeEndian.PutUint32(m.b[m.start:], uint32(len(m.b)-m.start))
}

// attr adds one attribute.
func (m *batch) attr(kind uint16, value []byte) {
	m.b = binary.NativeEndian.AppendUint16(m.b, uint16(unix.SizeofNlAttr+len(value)))
	m.b = binary.NativeEndian.AppendUint16(m.b, kind)
	m.b = append(m.b, value...)
	m.pad()
}

// str adds an attribute that is a string with its final NUL.
func (m *batch) str(kind uint16, s string) { m.attr(kind, append([]byte(s), 0)) }

// u32 adds a number as nf_tables wants it: big endian.
func (m *batch) u32(kind uint16, v uint32) { m.attr(kind, binary.BigEndian.AppendUint32(nil, v)) }

// nest adds an attribute that holds what inner adds.
func (m *batch) nest(kind uint16, inner func()) {
	start := len(m.b)
	m.attr(kind|unix.NLA_F_NESTED, nil)
	inner()
	binary.NativeEndian.PutUint16(m.b[start:], uint16(len(m.b)-start))
}

func (m *batch) pad() {
	for len(m.b)%unix.NLMSG_ALIGNTO != 0 {
		m.b = append(m.b, 0)
	}
}

// netlinkTimeout bounds each wait for the kernel's answer, in seconds: module
// loading may take a while.
const netlinkTimeout = 10

// send sends the batch and reads answers until each of the acks messages that
// carried NLM_F_ACK is answered, or one was refused.
func (m *batch) send(protocol, acks int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: netlinkTimeout}); err != nil {
		return err
	}
	if err := unix.Sendto(fd, m.b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("sending to netlink: %w", err)
	}
	answer := make([]byte, 32<<10)
	for acks > 0 {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for netlink: %w", err)
		}
		done, err := readAcks(answer[:n])
		if err != nil {
			return err
		}
		acks -= done
	}
	return nil
}

// readAcks counts the acknowledgements in b; the first refusal is the error.
func readAcks(b []byte) (int, error) {
	count := 0
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return count, errors.New("netlink answered with a truncated message")
		}
		if binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR && size >= unix.NLMSG_HDRLEN+4 {
			if code := int32(binary.NativeEndian.Uint32(b[unix.NLMSG_HDRLEN:])); code != 0 {
				return count, unix.Errno(-code)
			}
			count++
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return count, nil
}
