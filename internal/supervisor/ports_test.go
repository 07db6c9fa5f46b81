package supervisor

import (
	"net"
	"testing"

	"forage"
)

// A sandbox that had the board's port could serve a page in its place.
func TestBoardPortIsNotForwardedTo(t *testing.T) {
	for _, port := range []int{forage.BoardPort, firstForward - 1} {
		listener, err := ListenNear(port)
		if err != nil {
			t.Fatal(err)
		}
		if got := listener.Addr().(*net.TCPAddr).Port; got == port {
			t.Errorf("port %d was taken", port)
		}
		listener.Close()
	}
}

// A browser that looks for localhost:PORT would get to the user's server, not into the sandbox.
func TestPortOfTheOtherLoopbackIsTaken(t *testing.T) {
	other, err := net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6: ", err)
	}
	defer other.Close()
	if listener, err := ListenAt(other.Addr().(*net.TCPAddr).Port); err == nil {
		listener.Close()
		t.Error("it was taken on 127.0.0.1")
	}
}
