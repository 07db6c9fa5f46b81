package testdir

import (
	"net"
	"strconv"
	"testing"
)

// TestPortsAreOfOneTest: a block is nobody else's, also where none of its ports is listened on.
func TestPortsAreOfOneTest(t *testing.T) {
	given := map[int]bool{}
	for range 5 {
		first := Ports(t, 20)
		for port := first; port < first+20; port++ {
			if given[port] {
				t.Fatalf("port %d was given twice", port)
			}
			given[port] = true
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				t.Fatal(err)
			}
			listener.Close()
		}
	}
}

func TestMorePortsThanABlockHas(t *testing.T) {
	if _, _, err := TakePorts(blockSize); err == nil {
		t.Error("they were given, with those of another block")
	}
}
