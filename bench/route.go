package main

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// defaultGateway is the IPv4 gateway of the default route (proc_pid_net(5), route:
// addresses are little-endian hexadecimal).
func defaultGateway() (string, error) {
	raw, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(raw), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "00000000" {
			continue
		}
		b, err := hex.DecodeString(f[2])
		if err != nil || len(b) != 4 {
			continue
		}
		slices.Reverse(b)
		addr, _ := netip.AddrFromSlice(b)
		return addr.String(), nil
	}
	return "", errors.New("there is none")
}
