package testdir

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// Ports of 127.0.0.1 for tests are in blocks, the first of which is listened on as long as the
// others are a test's.
const (
	lowest    = 12000
	blockSize = 32
)

// Ports is the first of n ports of 127.0.0.1 in a row that are free, and no other test of this
// machine is given until this one has ended: not those of other packages and users, which run at
// the same time. Connections don't take their own ends from there, unless the machine's whole range
// is theirs.
func Ports(t testing.TB, n int) (first int) {
	t.Helper()
	first, free, err := TakePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	return first
}

// TakePorts is Ports for who has to give them back.
func TakePorts(n int) (first int, free func(), err error) {
	if n >= blockSize {
		return 0, nil, fmt.Errorf("%d ports are more than a block has", n)
	}
	top := ephemeral()
	blocks := (top - lowest) / blockSize
	for i := range blocks {
		base := lowest + (i+os.Getpid())%blocks*blockSize // two that begin at once don't go the same way
		holder, err := listen(base)
		if err != nil {
			continue
		}
		if allFree(base+1, n) {
			return base + 1, func() { holder.Close() }, nil
		}
		holder.Close()
	}
	return 0, nil, fmt.Errorf("no %d ports in a row are free from %d to %d", n, lowest, top)
}

// ephemeral is where the ports begin that the kernel gives connections for their own end (ip(7)).
func ephemeral() int {
	const usual = 32768
	first := usual
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if _, scanErr := fmt.Sscan(string(text), &first); err != nil || scanErr != nil || first < lowest+10*blockSize {
		return usual
	}
	return min(first, usual)
}

func allFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		listener, err := listen(port)
		if err != nil {
			return false
		}
		listener.Close()
	}
	return true
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
