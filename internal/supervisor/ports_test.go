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
