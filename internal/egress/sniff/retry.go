package sniff

import (
	"bytes"
	"io"
)

// retryRandom is the random of a ServerHello that asks for another ClientHello
// (RFC 8446, 4.1.3).
var retryRandom = []byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

// Where things are in the record of a ServerHello.
const (
	recordHeader      = 5
	messageServer     = 2
	randomAt          = recordHeader + 4 + 2
	recordChange      = 20
	recordApplication = 23
)

// ReadServerStart reads the beginning of a TLS server's answer to a
// ClientHello, and says whether it asks for another one. It returns every byte that was
// read. What is not a ServerHello (an alert, or no TLS at all) asks for nothing.
func ReadServerStart(r io.Reader) (retry bool, wire []byte, err error) {
	buf := make([]byte, 4<<10)
	n := 0
	for {
		k, err := r.Read(buf[n:])
		n += k
		wire = buf[:n]
		switch {
		case n > 0 && buf[0] != recordHandshake, n > recordHeader && buf[recordHeader] != messageServer:
			return false, wire, nil
		case n >= recordHeader && int(buf[3])<<8|int(buf[4]) < randomAt+len(retryRandom)-recordHeader:
			return false, wire, refuse("not-tls", "the server's first TLS record is too short to be read")
		case n >= randomAt+len(retryRandom):
			return bytes.Equal(buf[randomAt:randomAt+len(retryRandom)], retryRandom), wire, nil
		case k == 0 && err != nil:
			return false, wire, err
		}
	}
}

// ReadSecondHello reads the ClientHello that was asked for again. Records that
// a client may send before it, early data and a change of cipher that means nothing, are
// passed over. It returns every byte that was read.
func ReadSecondHello(r io.Reader) (h Hello, wire []byte, err error) {
	for {
		var header [recordHeader]byte
		n, err := io.ReadFull(r, header[:])
		if err != nil {
			return Hello{}, append(wire, header[:n]...), err
		}
		if kind := header[0]; kind != recordChange && kind != recordApplication {
			h, rest, err := ReadHello(r, header[:])
			return h, append(wire, rest...), err
		}
		size := int(header[3])<<8 | int(header[4])
		if len(wire)+recordHeader+size > maxHelloWire {
			return Hello{}, wire, refuse("not-tls", "the client sends too much before its second ClientHello")
		}
		record := make([]byte, size)
		n, err = io.ReadFull(r, record)
		wire = append(append(wire, header[:]...), record[:n]...)
		if err != nil {
			return Hello{}, wire, err
		}
	}
}
