package supervisor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/audit"
	"forage/internal/guest/guestclient"
)

const (
	// portsPause is how long after a look the guest is asked again for the ports that are forwarded
	// by themselves. The kernel does not tell of a socket that begins to listen.
	portsPause = 2 * time.Second
	// maxForwards bounds the ports of the host that a sandbox takes.
	maxForwards = 20
	// firstForward is the first port of the host that a sandbox may choose: those below are for
	// services of the system.
	firstForward = 1024
)

// Port is a TCP port that something inside listens on. The guest says so, and may lie.
type Port struct {
	Port  int `json:"port"`
	Local int `json:"local,omitempty"` // port of the host's loopback that leads there; 0: none does
}

// forwards are the ports inside that the host's loopback leads to.
type forwards struct {
	mu   sync.Mutex
	open map[int]forward // by port inside
	told map[int]bool    // ports that are in the audit log: an agent can open and close one for ever
}

type forward struct {
	local int
	end   context.CancelFunc
}

// shown are the ports that the guest tells of.
func (f *forwards) shown(told []int) []Port {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Port
	for _, port := range told {
		if port > 0 && port < 1<<16 {
			all = append(all, Port{port, f.open[port].local})
		}
	}
	slices.SortFunc(all, func(a, b Port) int { return cmp.Compare(a.Port, b.Port) })
	return slices.Compact(all)
}

// forwardPorts follows what listens inside, as long as the sandbox lives, if its template says so.
func (s *Sandbox) forwardPorts() {
	if !s.setup.Plan.ForwardAuto {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.forwards.open, s.forwards.told = map[int]forward{}, map[int]bool{}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if answer, err := s.query(ctx, "ports"); err == nil {
				s.follow(ctx, &running, s.forwards.shown(answer.Ports))
			}
			select {
			case <-ctx.Done():
			case <-time.After(portsPause):
			}
		}
	})
	s.undo.add("the forwarded ports", func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// follow forwards the ports that are new, and ends what leads to those that are gone.
func (s *Sandbox) follow(ctx context.Context, running *sync.WaitGroup, ports []Port) {
	s.forwards.mu.Lock()
	defer s.forwards.mu.Unlock()
	for port, forward := range maps.All(s.forwards.open) {
		if !slices.ContainsFunc(ports, func(p Port) bool { return p.Port == port }) {
			forward.end()
			delete(s.forwards.open, port)
		}
	}
	for _, p := range ports {
		if p.Local != 0 || len(s.forwards.open) == maxForwards {
			continue
		}
		event := audit.Event{Kind: audit.Exec, Verdict: "allow", Method: "forward", Path: "localhost:" + strconv.Itoa(p.Port), Reason: "forward = auto"}
		if !s.forwards.told[p.Port] && s.Record(event) != nil {
			return
		}
		s.forwards.told[p.Port] = true
		listener, err := ListenNear(p.Port)
		if err != nil {
			return // the next look tries again
		}
		ctx, cancel := context.WithCancel(ctx)
		s.forwards.open[p.Port] = forward{listener.Addr().(*net.TCPAddr).Port, cancel}
		running.Go(func() {
			defer cancel()
			defer listener.Close()
			client, err := guestclient.Dial(ctx, SSHSocket(s.setup.Dir))
			if err == nil {
				_ = client.Forward(ctx, listener, p.Port) // until one side has ended
				client.Close()
			}
			s.forwards.mu.Lock()
			defer s.forwards.mu.Unlock()
			if ctx.Err() == nil { // nothing else has ended it: the next look tries again
				delete(s.forwards.open, p.Port)
			}
		})
	}
}

// ListenAt listens on a port of the host's loopback; 0 is any. A port that a server of the user's has
// on ::1 is taken too: browsers try that first for localhost.
func ListenAt(port int) (*net.TCPListener, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, err
	}
	other, err := net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback, Port: listener.Addr().(*net.TCPAddr).Port})
	if err == nil {
		other.Close()
	} else if errors.Is(err, unix.EADDRINUSE) {
		listener.Close()
		return nil, err
	}
	return listener, nil // also where there is no IPv6
}

// ListenNear listens on that port, or on any where it is taken, the board's or one of the system's.
func ListenNear(port int) (*net.TCPListener, error) {
	if port >= firstForward && port != forage.BoardPort {
		if listener, err := ListenAt(port); err == nil {
			return listener, nil
		}
	}
	return ListenAt(0)
}
