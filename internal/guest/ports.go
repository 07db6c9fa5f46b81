package guest

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/netns"
)

// Bounds on what is told of ports: an agent can listen on all of them.
const (
	maxPorts = 100
	maxTable = 4 << 20 // bytes of one table of the kernel's
)

// listening are the TCP ports that something inside listens on, in order, without egress's own. It
// reads the kernel's tables of this network namespace (proc_net_tcp in the kernel's documentation).
func listening() []int {
	var ports []int
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue // without IPv6
		}
		ports = append(ports, listeningIn(io.LimitReader(file, maxTable))...)
		file.Close()
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	return ports[:min(len(ports), maxPorts)]
}

func listeningIn(table io.Reader) (ports []int) {
	const local, state, listen = 1, 3, "0A" // columns, and TCP_LISTEN
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) <= state || fields[state] != listen {
			continue
		}
		_, hex, _ := strings.Cut(fields[local], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if own := []uint64{forage.ProxyPort, netns.TransparentPort, netns.DNSPort}; err == nil && port > 0 && !slices.Contains(own, port) {
			ports = append(ports, int(port))
		}
	}
	return ports
}
