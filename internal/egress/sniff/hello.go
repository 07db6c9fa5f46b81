package sniff

import (
	"io"

	"golang.org/x/crypto/cryptobyte"
)

// Bounds of a ClientHello, in bytes: of the message, and with its records'
// headers. Real ones stay below 4 KiB, post-quantum key shares included.
const (
	maxHello     = 32 << 10
	maxHelloWire = 64 << 10
)

// TLS numbers (RFC 8446, RFC 6066, RFC 9849 and the drafts before it).
const (
	recordHandshake   = 22
	messageHello      = 1
	extServerName     = 0
	extECH            = 0xfe0d
	extECHFirstDraft  = 0xfe08
	extESNI           = 0xffce
	serverNameHost    = 0
	maxRecordFragment = 1 << 14
)

// FirstOfTLS is the first byte of a connection that begins with TLS.
const FirstOfTLS = recordHandshake

// Hello is what a ClientHello says openly.
type Hello struct {
	ServerName string // as sent; "" if there is none
	// Encrypted says that there may be another, encrypted ClientHello inside,
	// for another name. Browsers send such an extension with nothing in it
	// too (GREASE), and only the server can tell.
	Encrypted bool
}

// ReadHello reads a ClientHello from r, after prefix, which was read before. It
// returns every byte that was read, prefix included. Errors that are not of r are *Error.
func ReadHello(r io.Reader, prefix []byte) (h Hello, wire []byte, err error) {
	m := helloMessage{wire: append(make([]byte, 0, 2048), prefix...)}
	for {
		done, err := m.advance()
		if err != nil {
			return Hello{}, m.wire, err
		}
		if done {
			h, err := parseHello(m.body)
			return h, m.wire, err
		}
		if len(m.wire) >= maxHelloWire {
			return Hello{}, m.wire, refuse("not-tls", "the TLS ClientHello is too long")
		}
		if len(m.wire) == cap(m.wire) {
			m.wire = append(m.wire, 0)[:len(m.wire)]
		}
		n, err := r.Read(m.wire[len(m.wire):cap(m.wire)])
		m.wire = m.wire[:len(m.wire)+n]
		if n == 0 && err != nil {
			return Hello{}, m.wire, err
		}
	}
}

// helloMessage puts a handshake message together from its records.
type helloMessage struct {
	wire []byte // all that was read
	next int    // where the next record begins in wire
	body []byte // fragments so far: 4 bytes of header, then the message
}

// advance takes what whole records there are. A record that is not of a ClientHello
// is refused as soon as its header is there.
func (m *helloMessage) advance() (done bool, err error) {
	for {
		rest := m.wire[m.next:]
		if len(rest) > 0 && rest[0] != recordHandshake || len(rest) > 1 && rest[1] != 3 {
			return false, refuse("not-tls", "what the client sends first is not TLS")
		}
		if len(rest) < 5 {
			return false, nil
		}
		size := int(rest[3])<<8 | int(rest[4])
		if size == 0 || size > maxRecordFragment {
			return false, refuse("not-tls", "a TLS record of %d bytes", size)
		}
		if len(rest) < 5+size {
			return false, nil
		}
		m.body = append(m.body, rest[5:5+size]...)
		m.next += 5 + size
		if m.body[0] != messageHello {
			return false, refuse("not-tls", "the first TLS message is not a ClientHello")
		}
		if len(m.body) < 4 {
			continue
		}
		switch want := 4 + (int(m.body[1])<<16 | int(m.body[2])<<8 | int(m.body[3])); {
		case want > maxHello:
			return false, refuse("not-tls", "the TLS ClientHello is too long")
		case len(m.body) > want:
			return false, refuse("not-tls", "another TLS message in the record of the ClientHello")
		case len(m.body) == want:
			return true, nil
		}
	}
}

// parseHello reads a whole message (RFC 8446, 4.1.2).
func parseHello(message []byte) (Hello, error) {
	malformed := refuse("not-tls", "the TLS ClientHello is malformed")
	var session, suites, compression, extensions cryptobyte.String
	s := cryptobyte.String(message[4:])
	if !s.Skip(2+32) || !s.ReadUint8LengthPrefixed(&session) || !s.ReadUint16LengthPrefixed(&suites) ||
		!s.ReadUint8LengthPrefixed(&compression) {
		return Hello{}, malformed
	}
	var h Hello
	if s.Empty() { // no extensions: TLS 1.2 and before
		return h, nil
	}
	if !s.ReadUint16LengthPrefixed(&extensions) || !s.Empty() {
		return Hello{}, malformed
	}
	seen := make(map[uint16]bool)
	for !extensions.Empty() {
		var kind uint16
		var body cryptobyte.String
		if !extensions.ReadUint16(&kind) || !extensions.ReadUint16LengthPrefixed(&body) || seen[kind] {
			return Hello{}, malformed
		}
		seen[kind] = true
		switch {
		case kind == extServerName:
			var ok bool
			if h.ServerName, ok = parseServerName(body); !ok {
				return Hello{}, malformed
			}
		case kind == extESNI || kind >= extECHFirstDraft && kind <= extECH:
			h.Encrypted = true
		}
	}
	return h, nil
}

// parseServerName reads the one host name that RFC 6066, 3 has room for.
func parseServerName(body cryptobyte.String) (string, bool) {
	var list, name cryptobyte.String
	var kind uint8
	if !body.ReadUint16LengthPrefixed(&list) || !body.Empty() || !list.ReadUint8(&kind) || kind != serverNameHost ||
		!list.ReadUint16LengthPrefixed(&name) || !list.Empty() || name.Empty() {
		return "", false
	}
	return string(name), true
}
