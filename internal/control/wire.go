package control

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// On the wire a frame is
//
//	uint32  length of the body, big endian
//	uint32  length of the blob
//	uint8   length of the kind
//	bytes   kind, body, blob
//
// and its descriptors ride on the first byte. What rides on a byte beyond the
// header is dropped.
const headerSize = 9

// ErrProtocol is in the chain of every error that the peer caused by what it
// sent. The channel is of no further use after it.
var ErrProtocol = errors.New("protocol error on the control channel")

// Bound is what a receiving end accepts.
type Bound struct {
	Bytes int // of one frame, all of it
	Files int // beside one frame, at most 253 (SCM_MAX_FD, unix(7))
}

// FromGuest is what the host accepts: the guest is hostile and has little to say.
func FromGuest() Bound { return Bound{Bytes: 64 << 10, Files: 16} }

// FromHost is what a guest accepts: a boot frame holds files and descriptors.
func FromHost() Bound { return Bound{Bytes: 16 << 20, Files: 253} }

// header is the decoded fixed part of a frame.
type header struct {
	body, blob, kind int
}

// size is the length of what follows the header.
func (h header) size() int { return h.kind + h.body + h.blob }

// parseHeader checks the fixed part of a frame against the bound before
// anything is allocated for the rest.
func parseHeader(b [headerSize]byte, bound Bound) (header, error) {
	// 64 bits, so that no sum can wrap whatever int is.
	body, blob := int64(binary.BigEndian.Uint32(b[0:])), int64(binary.BigEndian.Uint32(b[4:]))
	kind := int64(b[8])
	if total := headerSize + kind + body + blob; total > int64(bound.Bytes) {
		return header{}, fmt.Errorf("%w: a frame of %d bytes, at most %d are accepted", ErrProtocol, total, bound.Bytes)
	}
	return header{body: int(body), blob: int(blob), kind: int(kind)}, nil
}

// parse splits what followed the header. The frame refers to b.
func parse(h header, b []byte) (Frame, error) {
	if len(b) != h.size() {
		return Frame{}, fmt.Errorf("%w: %d bytes where %d were announced", ErrProtocol, len(b), h.size())
	}
	f := Frame{Kind: Kind(b[:h.kind])}
	if !f.Kind.known() {
		return Frame{}, fmt.Errorf("%w: a frame of unknown kind %q", ErrProtocol, f.Kind)
	}
	if h.body > 0 {
		f.Body = b[h.kind : h.kind+h.body : h.kind+h.body]
	}
	if h.blob > 0 {
		f.Blob = b[h.kind+h.body:]
	}
	return f, nil
}

// marshal is the head of f on the wire: everything but the blob, which is
// sent from where it is.
func marshal(f Frame) ([]byte, error) {
	if !f.Kind.known() {
		return nil, fmt.Errorf("sending a frame of unknown kind %q", f.Kind)
	}
	if int64(len(f.Body)) > 1<<31 || int64(len(f.Blob)) > 1<<31 {
		return nil, fmt.Errorf("sending a %s frame: too long", f.Kind)
	}
	b := make([]byte, 0, headerSize+len(f.Kind)+len(f.Body))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Blob)))
	b = append(b, byte(len(f.Kind)))
	b = append(b, f.Kind...)
	return append(b, f.Body...), nil
}
