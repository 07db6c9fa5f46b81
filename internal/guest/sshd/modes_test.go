package sshd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestApplyModes(t *testing.T) {
	before := unix.Termios{Iflag: unix.ICRNL | unix.IUTF8, Lflag: unix.ECHO | unix.ICANON, Oflag: unix.OPOST}
	before.Cc[unix.VERASE], before.Cc[unix.VQUIT] = 0x7f, 0x1c
	erase := before
	erase.Cc[unix.VERASE], erase.Cc[unix.VQUIT] = 8, 0
	flags := before
	flags.Iflag, flags.Lflag = unix.IUTF8|unix.IXON, unix.ICANON
	for _, test := range []struct {
		name    string
		encoded []byte
		want    unix.Termios
	}{
		{"nothing", nil, before},
		{"characters", []byte{3, 0, 0, 0, 8, 2, 0, 0, 0, 255, 0}, erase},
		{"flags", []byte{36, 0, 0, 0, 0, 38, 0, 0, 0, 1, 53, 0, 0, 0, 0, 0}, flags},
		{"after the end", []byte{0, 3, 0, 0, 0, 8}, before},
		{"reserved", []byte{160, 3, 0, 0, 0, 8, 3, 0, 0, 0, 8}, before},
		{"speeds and unknown ones", []byte{128, 0, 0, 0x96, 0, 129, 0, 0, 0x96, 0, 99, 0, 0, 0, 1}, before},
		{"cut", []byte{3, 0, 0, 0}, before},
	} {
		got := before
		applyModes(&got, test.encoded)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func FuzzApplyModes(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 8, 0})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var modes unix.Termios
		applyModes(&modes, encoded)
	})
}
