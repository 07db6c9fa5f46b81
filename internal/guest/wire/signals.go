package wire

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// standard are the signal names of RFC 4254, section 6.10. Others are sent as
// local extensions ("TRAP@forage"), so that no exit code is lost.
const standard = " ABRT ALRM FPE HUP ILL INT KILL PIPE QUIT SEGV TERM USR1 USR2 "

const extension = "@forage"

// firstRealTime and lastSignal are the kernel's, signal(7).
const (
	firstRealTime = 32
	lastSignal    = 64
)

// SignalName is how sig is called on the wire, without "SIG".
func SignalName(sig syscall.Signal) string {
	name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
	switch {
	case name == "":
		return fmt.Sprintf("RT%d%s", int(sig), extension)
	case strings.Contains(standard, " "+name+" "):
		return name
	default:
		return name + extension
	}
}

// ParseSignal is SignalName's inverse; names of other makers' extensions
// ("TRAP@openssh.com") are understood too. It returns 0 for what names no signal.
func ParseSignal(name string) syscall.Signal {
	name, _, _ = strings.Cut(name, "@")
	if number, ok := strings.CutPrefix(name, "RT"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < firstRealTime || n > lastSignal {
			return 0
		}
		return syscall.Signal(n)
	}
	return unix.SignalNum("SIG" + name)
}
