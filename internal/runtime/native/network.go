package native

import (
	"fmt"

	"golang.org/x/sys/unix"

	"forage/internal/netns"
)

// networkSetup is the namespaces' set-up that needs no mounts; it runs beside
// the building of the root.
type networkSetup struct {
	done    chan struct{}
	network netns.Network
	err     error
}

func startNetwork(hostname string) *networkSetup {
	s := &networkSetup{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			s.err = fmt.Errorf("sethostname: %w", err)
			return
		}
		s.network, s.err = netns.Setup()
	}()
	return s
}

func (s *networkSetup) wait() (netns.Network, error) {
	<-s.done
	return s.network, s.err
}

func (s *networkSetup) abandon() {
	<-s.done
	s.network.Close()
}
