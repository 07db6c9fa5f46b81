package sshd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Terminal modes as a client encodes them (RFC 4254, section 8): pairs of an
// opcode and a uint32, ended by opcode 0. Opcodes from 160 on end them too.
const (
	modesEnd      = 0
	modesReserved = 160
)

// characters are opcodes of control characters, by their place in Termios.Cc.
var characters = map[byte]int{
	1: unix.VINTR, 2: unix.VQUIT, 3: unix.VERASE, 4: unix.VKILL, 5: unix.VEOF, 6: unix.VEOL, 7: unix.VEOL2,
	8: unix.VSTART, 9: unix.VSTOP, 10: unix.VSUSP, 12: unix.VREPRINT, 13: unix.VWERASE, 14: unix.VLNEXT, 18: unix.VDISCARD,
}

// Opcodes of flags, by their bits.
var (
	inputFlags = map[byte]uint32{
		30: unix.IGNPAR, 31: unix.PARMRK, 32: unix.INPCK, 33: unix.ISTRIP, 34: unix.INLCR, 35: unix.IGNCR, 36: unix.ICRNL,
		37: unix.IUCLC, 38: unix.IXON, 39: unix.IXANY, 40: unix.IXOFF, 41: unix.IMAXBEL, 42: unix.IUTF8,
	}
	localFlags = map[byte]uint32{
		50: unix.ISIG, 51: unix.ICANON, 52: unix.XCASE, 53: unix.ECHO, 54: unix.ECHOE, 55: unix.ECHOK, 56: unix.ECHONL,
		57: unix.NOFLSH, 58: unix.TOSTOP, 59: unix.IEXTEN, 60: unix.ECHOCTL, 61: unix.ECHOKE, 62: unix.PENDIN,
	}
	outputFlags = map[byte]uint32{
		70: unix.OPOST, 71: unix.OLCUC, 72: unix.ONLCR, 73: unix.OCRNL, 74: unix.ONOCR, 75: unix.ONLRET,
	}
)

// unset is the value of a control character that is switched off, on the wire.
const unset = 255

// applyModes changes modes as encoded says; what isn't known is left as it is.
func applyModes(modes *unix.Termios, encoded []byte) {
	for len(encoded) >= 5 && encoded[0] != modesEnd && encoded[0] < modesReserved {
		opcode, value := encoded[0], binary.BigEndian.Uint32(encoded[1:])
		encoded = encoded[5:]
		if place, ok := characters[opcode]; ok {
			if value == unset {
				value = 0 // _POSIX_VDISABLE
			}
			modes.Cc[place] = byte(value)
		}
		setFlag(&modes.Iflag, inputFlags[opcode], value)
		setFlag(&modes.Lflag, localFlags[opcode], value)
		setFlag(&modes.Oflag, outputFlags[opcode], value)
	}
}

func setFlag(flags *uint32, bit, value uint32) {
	if value == 0 {
		*flags &^= bit
	} else {
		*flags |= bit
	}
}
