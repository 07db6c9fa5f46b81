// Package forward brings what programs inside ask of the network to the host, where descriptors
// can't cross: each connection, and each question to the resolver, becomes a stream that begins
// with a PROXY v2 header. It decides nothing.
package forward

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"forage/internal/accept"
	"forage/internal/deadline"
	"forage/internal/egress/relay"
	"forage/internal/netns"
)

// maxQuestions is how many questions are under way at once; others wait in the socket.
const maxQuestions = 64

// Serve forwards what comes to the listeners, each over a stream that open opens, until they are
// closed.
func Serve(l netns.Listeners, open func() (net.Conn, error)) {
	for _, ln := range l.Transparent {
		go accept.Each(nil, ln, func(conn net.Conn) {
			dst, err := netns.Destination(conn)
			if err != nil {
				dst = local(conn.LocalAddr()) // not redirected: the host says what it thinks of that
			}
			go connect(conn, dst, open)
		})
	}
	for _, ln := range append(l.Proxy, l.DNSStream...) {
		go accept.Each(nil, ln, func(conn net.Conn) { go connect(conn, local(conn.LocalAddr()), open) })
	}
	for _, pc := range l.DNSPacket {
		go answer(pc, open)
	}
}

// connect joins a connection to a stream to the host.
func connect(conn net.Conn, dst netip.AddrPort, open func() (net.Conn, error)) {
	stream, err := begin(dst, open)
	if err != nil {
		relay.Reset(conn)
		return
	}
	relay.Join(conn, stream, new(relay.Counts)) // what fails is reset on both sides
}

// begin opens a stream about dst.
func begin(dst netip.AddrPort, open func() (net.Conn, error)) (net.Conn, error) {
	stream, err := open()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write(header(dst)); err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// header is a PROXY protocol v2 header ("The PROXY protocol", 2.2) for TCP. The source is unset.
func header(dst netip.AddrPort) []byte {
	addr := dst.Addr().Unmap()
	family, source := byte(0x11), make([]byte, 4)
	if addr.Is6() {
		family, source = 0x21, make([]byte, 16)
	}
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21"), family)
	b = binary.BigEndian.AppendUint16(b, uint16(2*len(source)+4))
	b = append(append(b, source...), addr.AsSlice()...)
	return binary.BigEndian.AppendUint16(append(b, 0, 0), dst.Port())
}

// answer asks the host what is asked in datagrams.
func answer(pc net.PacketConn, open func() (net.Conn, error)) {
	own := local(pc.LocalAddr())
	slots := make(chan struct{}, maxQuestions)
	for {
		question := make([]byte, 4<<10)
		n, from, err := pc.ReadFrom(question[2:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one datagram
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if reply, err := ask(question[:2+n], own, open); err == nil {
				pc.WriteTo(reply, from)
			}
		}()
	}
}

// ask sends a question, which begins with two bytes for its length (RFC 1035, 4.2.2), and returns
// the answer without them.
func ask(question []byte, own netip.AddrPort, open func() (net.Conn, error)) ([]byte, error) {
	stream, err := begin(own, open)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	stream.SetDeadline(time.Now().Add(deadline.Answer))
	binary.BigEndian.PutUint16(question, uint16(len(question)-2))
	if _, err := stream.Write(question); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(stream, question[:2]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(question))
	_, err = io.ReadFull(stream, reply)
	return reply, err
}

// local is the address of one of our sockets.
func local(addr net.Addr) netip.AddrPort {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}
