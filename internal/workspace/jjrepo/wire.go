package jjrepo

import (
	"encoding/binary"
	"errors"
)

// The wire format of Protocol Buffers, as far as jj's files use it
// (https://protobuf.dev/programming-guides/encoding/). They come from inside: nothing
// is allocated by what they claim, and a message is no longer than its bytes.

var errWire = errors.New("not a message that jj would write")

// field is one field of a message.
type field struct {
	number int
	value  uint64 // of a varint
	data   []byte // of what has a length; it is a part of the message
}

// fields calls f with each field of message in order, until one is an error.
func fields(message []byte, f func(field) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return errWire
		}
		message = message[n:]
		now := field{number: int(tag >> 3)}
		switch tag & 7 {
		case 0:
			if now.value, n = binary.Uvarint(message); n <= 0 {
				return errWire
			}
		case 1:
			n = 8
		case 2:
			length, size := binary.Uvarint(message)
			if size <= 0 || length > uint64(len(message)-size) {
				return errWire
			}
			n = size + int(length)
			now.data = message[size:n]
		case 5:
			n = 4
		default:
			return errWire
		}
		if n > len(message) {
			return errWire
		}
		message = message[n:]
		if err := f(now); err != nil {
			return err
		}
	}
	return nil
}

// appendBytes adds a field that has a length.
func appendBytes(message []byte, number int, data []byte) []byte {
	message = binary.AppendUvarint(message, uint64(number)<<3|2)
	message = binary.AppendUvarint(message, uint64(len(data)))
	return append(message, data...)
}
